"""`promptcache encode` and `promptcache store`: what is stored, listed, verified and removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import SCHEMA, call, object_on


@pytest.fixture
def stored(here: Path, model_folder: str) -> Path:
    """A folder with the schema of the working folder in it."""
    done = call("encode", "zoo.xml", "--store", "states", "--model", model_folder)
    assert done.exit_code == 0, done.output
    return here / "states"


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def listed(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = object_on(call("store", "ls", "--store", folder, "--json").stdout)
    return found


def test_encode_stores_and_says_what_is_stored_already(stored, model_folder):
    assert len(files(stored)) == 1
    (stored.parent / "farm.xml").write_text('<schema name="farm">Cows eat grass.</schema>')
    done = call("encode", "zoo.xml", "farm.xml", "--store", stored, "--model", model_folder)
    assert done.exit_code == 0 and len(files(stored)) == 2
    zoo, farm = done.stdout.splitlines()
    assert zoo.startswith("zoo.xml: ") and zoo.endswith("tokens, stored already")
    assert farm.startswith("farm.xml: 15 tokens, ") and farm.endswith(" s")


def test_run_uses_what_encode_stored(stored, model_folder):
    usage = object_on(call("run", "why.xml", "--store", stored, "--model", model_folder, "--json").stdout)["usage"]
    assert usage["computed_tokens"] == usage["fresh_tokens"] + usage["repaired_tokens"] < usage["prompt_tokens"]
    [zoo] = listed(stored)
    assert zoo["uses"] == 1 and zoo["schema"] == "zoo" and zoo["model"] == model_folder
    assert zoo["num_bytes"] == files(stored)[0].stat().st_size


@pytest.mark.parametrize("command", ["run", "verify", "encode"])
def test_off_is_no_store_and_no_folder(command, here, model_folder, monkeypatch):
    monkeypatch.setenv("PROMPTCACHE_STORE", str(here / "default"))
    before = sorted(here.iterdir())
    file = "zoo.xml" if command == "encode" else "why.xml"
    done = call(command, file, "--store", "off", "--model", model_folder)
    assert sorted(here.iterdir()) == before
    assert (done.exit_code == 0) == (command != "encode")
    assert command != "encode" or "there is no store" in done.output


def test_encode_tells_a_fault_before_the_model_is_loaded(here):
    (here / "bad.xml").write_text("<schema>")
    done = call("encode", "zoo.xml", "bad.xml", "--store", "states", "--model", "./nothing")
    assert done.exit_code == 1 and "bad.xml:1:" in done.stderr and not (here / "states").exists()


def test_encode_says_when_nothing_could_be_stored(here, model_folder, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("promptcache.store.writing.os.fsync", full)
    done = call("encode", "zoo.xml", "--store", "states", "--model", model_folder)
    assert done.exit_code == 1 and "could not be stored" in done.stderr


def test_nowhere_to_store(here, model_folder):
    for command in (("encode", "zoo.xml", "--model", model_folder), ("store", "ls")):
        done = call(*command)
        assert done.exit_code == 1 and "--store" in done.stderr


def test_ls_and_stat(stored, model_folder):
    assert call("encode", "zoo.xml", "--store", stored, "--model", model_folder, "--codec", "int8").exit_code == 0
    shown = call("store", "ls", "--store", stored).stdout
    assert shown.split()[:3] == ["schema", "model", "layout"] and "int8" in shown and "zoo" in shown
    facts = object_on(call("store", "stat", "--store", stored, "--json").stdout)
    assert (facts["files"], facts["schemas"], facts["models"], facts["damaged"]) == (2, 1, 1, 0)
    assert "schemas: 1" in call("store", "stat", "--store", stored).stdout


def test_an_empty_store(here):
    assert listed(here / "none") == []
    assert object_on(call("store", "stat", "--store", "none", "--json").stdout)["files"] == 0
    for command in ("verify", "prune"):
        assert call("store", command, "--store", "none").exit_code == 0
    assert not (here / "none").exists()


def test_verify_finds_damage_and_prune_removes_it(stored):
    assert call("store", "verify", "--store", stored).exit_code == 0
    data = bytearray(files(stored)[0].read_bytes())
    data[-1] ^= 1
    files(stored)[0].write_bytes(data)
    found = call("store", "verify", "--store", stored)
    assert found.exit_code == 1 and "damaged" in found.stdout and "1 cannot be used" in found.stdout
    # Only reading it all finds it; a file that is cut is seen at once.
    assert "0 files removed" in call("store", "prune", "--store", stored).stdout
    os.truncate(files(stored)[0], 100)
    assert "1 files removed" in call("store", "prune", "--store", stored).stdout
    assert not files(stored)


def test_verify_removes_what_is_damaged(stored):
    data = bytearray(files(stored)[0].read_bytes())
    data[-1] ^= 1
    files(stored)[0].write_bytes(data)
    assert call("store", "verify", "--store", stored, "--remove").exit_code == 1
    assert not files(stored) and call("store", "verify", "--store", stored).exit_code == 0


def test_prune_by_age_and_size(stored):
    (stored / "mine.txt").write_text("mine")
    old = stored / ".x.tmp"
    old.write_text("half")
    os.utime(old, (1, 1))
    assert "0 files removed" in call("store", "prune", "--store", stored, "--unused-for", "1h").stdout
    assert not old.exists()
    for path in files(stored):
        os.utime(path, (1, 1))
    assert "1 files removed" in call("store", "prune", "--store", stored, "--unused-for", "30d").stdout
    assert [path.name for path in stored.iterdir()] == ["mine.txt"]
    assert call("store", "prune", "--store", stored, "--unused-for", "soon").exit_code == 2
    assert call("store", "prune", "--store", stored, "--max-size", "much").exit_code == 1


def test_prune_to_a_size(stored):
    assert "1 files removed" in call("store", "prune", "--store", stored, "--max-size", "1KiB").stdout


def test_rm(stored, model_folder):
    (stored.parent / "farm.xml").write_text('<schema name="farm">Cows.</schema>')
    call("encode", "farm.xml", "--store", stored, "--model", model_folder)
    missing = call("store", "rm", "farms", "--store", stored)
    assert missing.exit_code == 1 and "farm, zoo" in missing.stderr
    assert call("store", "rm", "zoo", "--store", stored).exit_code == 0
    assert [each["schema"] for each in listed(stored)] == ["farm"]
    assert call("store", "rm", "--store", stored).exit_code == 2
    assert call("store", "rm", "farm", "--all", "--store", stored).exit_code == 2
    assert call("store", "rm", "--all", "--store", stored).exit_code == 0
    assert list(stored.iterdir()) == []


def test_names_are_no_markup(here, model_folder):
    (here / "zoo.xml").write_text(SCHEMA.replace('"zoo"', '"zoo[red]"', 1))
    if call("encode", "zoo.xml", "--store", "states", "--model", model_folder).exit_code == 0:
        assert "zoo[red]" in call("store", "ls", "--store", "states").stdout
