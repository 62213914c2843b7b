"""GGUF files in another dtype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

from eval.peers.weights import float_gguf, gguf_file
from promptcache.errors import RequestError


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.Q4_1.gguf"
    writer = GGUFWriter(file, arch="llama")
    writer.add_block_count(2)
    writer.add_token_list(["a", "b", "<c>"])
    writer.add_token_types([1, 1, 3])
    writer.add_chat_template("{{ messages }}")
    values = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    packed = quantize(values, GGMLQuantizationType.Q4_1)
    writer.add_tensor("blk.0.attn_q.weight", packed, raw_dtype=GGMLQuantizationType.Q4_1)
    writer.add_tensor("output_norm.weight", np.arange(8, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _tensors(file: Path) -> dict[str, tuple[str, np.ndarray]]:
    return {t.name: (t.tensor_type.name, dequantize(t.data, t.tensor_type)) for t in GGUFReader(file).tensors}


@pytest.mark.parametrize(("dtype", "kind", "error"), [("float32", "F32", 0), ("bfloat16", "BF16", 2**-8)])
def test_a_copy_has_the_same_weights_and_fields(packed, tmp_path, monkeypatch, dtype, kind, error) -> None:
    monkeypatch.setenv("PROMPTCACHE_HOME", str(tmp_path / "home"))
    copy = float_gguf(packed, dtype)
    assert copy.parent == tmp_path / "home" / "peers"
    before, after = _tensors(packed), _tensors(copy)
    assert before.keys() == after.keys()
    assert after["blk.0.attn_q.weight"][0] == kind and after["output_norm.weight"][0] == "F32"
    for name, (_, values) in before.items():
        assert after[name][1].shape == values.shape
        np.testing.assert_allclose(after[name][1], values, rtol=error, atol=0)
    fields, copied = GGUFReader(packed).fields, GGUFReader(copy).fields
    kept = [name for name in fields if not name.startswith("GGUF.")]
    assert kept and all(copied[name].contents() == fields[name].contents() for name in kept)
    written = copy.stat().st_mtime_ns
    assert float_gguf(packed, dtype) == copy and copy.stat().st_mtime_ns == written
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_what_there_is_not_is_told(tmp_path) -> None:
    with pytest.raises(RequestError, match="there is no GGUF file of some/model"):
        gguf_file("some/model", None)
    with pytest.raises(RequestError, match=r"absent\.gguf is not there"):
        gguf_file("some/model", str(tmp_path / "absent.gguf"))
    with pytest.raises(RequestError, match="no weights in int4"):
        float_gguf(tmp_path / "absent.gguf", "int4")
