"""`promptcache verify`: a table or one JSON object, and faults told as by every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import call, object_on


def test_a_table_and_a_recommendation(here: Path, model_folder: str) -> None:
    paper = ("--encoding", "isolated", "--repair", "none")
    result = call("verify", "why.xml", "--model", model_folder, "--max-new-tokens", 4, *paper)
    assert result.exit_code == 0
    for words in (
        "KL, first token",
        "cats",
        "feed",
        "(schema)",
        "easier to read",
        "link:16, scaffold cats feed",
        "query:0.15",
    ):
        assert words in result.stdout
    assert result.stdout.rstrip().endswith(".")


def test_json(here: Path, model_folder: str) -> None:
    result = call("verify", "why.xml", "--model", model_folder, "--answer", "Because", "--repair", "link:2", "--json")
    found = object_on(result.stdout)
    assert found["answer"] == "Because" and found["repair"] == "link:2" and found["repaired_tokens"] > 0
    assert [module["path"] for module in found["modules"]] == ["", "cats", "feed"]
    assert [(each["path"], each["on"]) for each in found["leanings"]] == [("feed", "cats")]
    assert found["leanings"][0].keys() == {"path", "on", "gain", "control", "leans"} and found["pairs_left_out"] == 0
    assert found["recommendation"] and not found["exact"]


def test_faults(here: Path, model_folder: str) -> None:
    (here / "why.xml").write_text('<prompt schema="zoo"><cat/></prompt>')
    result = call("verify", "why.xml", "--model", model_folder, "--json")
    assert result.exit_code == 1
    assert object_on(result.stdout)["error"]["line"] == 1


@pytest.mark.parametrize("wrong", [("--repair", "glue"), ("--max-new-tokens", 0)])
def test_wrong_usage(wrong: tuple[object, ...], here: Path, model_folder: str) -> None:
    assert call("verify", "why.xml", "--model", model_folder, *wrong).exit_code == 2
