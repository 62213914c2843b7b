"""A tiny model and a working folder for the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import PROMPT, SCHEMA
from tests.tiny import byte_tokenizer, tiny_llama


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_llama().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a schema and a prompt, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "zoo.xml").write_text(SCHEMA)
    (tmp_path / "why.xml").write_text(PROMPT)
    return tmp_path
