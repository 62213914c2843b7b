"""Weights in the form that a peer reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize

from promptcache.config import cache_home
from promptcache.errors import RequestError
from promptcache.models import default_model

_KINDS = {
    "float32": GGMLQuantizationType.F32,
    "bfloat16": GGMLQuantizationType.BF16,
    "float16": GGMLQuantizationType.F16,
}


def gguf_file(model: str, given: str | None) -> Path:
    """The GGUF file of a model: the one that was given, or for the default model that of its wheel. Raises RequestError
    where there is none."""
    file = Path(given).expanduser() if given else None
    if file is None and model in (default_model.NAME, str(default_model.converted_folder())):
        file = default_model.find_gguf()
    if file is None or not file.is_file():
        raise RequestError(
            f"there is no GGUF file of {model}" if file is None else f"{file} is not there",
            hint="name one in the options: {gguf: FILE}",
        )
    return file


def float_gguf(source: Path, dtype: str) -> Path:
    """A copy of a GGUF file whose matrices are of that dtype, in the cache folder; made once. Vectors stay float32, as
    llama.cpp wants them. Raises RequestError for a dtype that it has not."""
    if dtype not in _KINDS:
        raise RequestError(f"llama.cpp has no weights in {dtype}", hint=f"one of {', '.join(_KINDS)}")
    target = cache_home() / "peers" / f"{source.stem}-{dtype}.gguf"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(f".{os.getpid()}")
        _write(GGUFReader(source), draft, _KINDS[dtype])
        draft.replace(target)
    return target


def _write(reader: Any, target: Path, kind: GGMLQuantizationType) -> None:
    writer = GGUFWriter(target, arch=reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        # The reader shows the file's own header as fields, too; the writer sets the architecture itself.
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if values.ndim < 2:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
