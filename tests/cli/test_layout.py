"""`promptcache layout`: the tree and its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import call, object_on


def test_the_tree(here: Path, model_folder: str) -> None:
    result = call("layout", "zoo.xml", "--model", model_folder)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("zoo  ")
    assert "to encode (anchored, reserved)" in lines[0]
    shown = [line for line in lines if "module" in line]
    assert [line.split("module ")[1].split()[0] for line in shown] == ["cats", "red", "white", "feed", "news"]
    assert "fresh in every prompt" in shown[-1]


def test_json(here: Path, model_folder: str) -> None:
    facts = object_on(call("layout", "zoo.xml", "--model", model_folder, "--json").stdout)
    by_kind = {(each["kind"], each["name"]): each for each in facts["elements"]}
    # A byte is a token: "Animals." is 8, and the line break behind it belongs to it.
    text = by_kind["text", '"Animals."']
    assert (text["start"], text["length"]) == (0, 9)
    cats = by_kind["module", "cats"]
    assert (cats["start"], cats["num_tokens"]) == (9, 12)
    # 2 layers, keys and values, 2 heads of 16, float32
    assert cats["num_bytes"] == 12 * 2 * 2 * 2 * 16 * 4
    union = by_kind["union", ""]
    assert {child["start"] for child in union["children"]} == {union["start"]}
    assert union["length"] == max(child["length"] for child in union["children"])
    parameter = by_kind["module", "feed"]["children"][1]
    assert (parameter["kind"], parameter["name"], parameter["length"]) == ("parameter", "times", 4)
    news = by_kind["module", "news"]
    assert (news["num_bytes"], news["end"]) == (0, facts["num_positions"])
    assert sum(each["num_tokens"] for each in facts["elements"]) == facts["num_tokens"]
    assert facts["encoding_estimate_ms"] > 0


def test_markup_in_texts_is_no_markup(here: Path, model_folder: str) -> None:
    (here / "zoo.xml").write_text('<schema name="zoo">[bold]a[/bold] [/x] :smile:</schema>')
    result = call("layout", "zoo.xml", "--model", model_folder)
    assert "[bold]a[/bold] [/x] :smile:" in result.stdout


@pytest.mark.parametrize("text", ['<schema name="zoo"/>', '<schema name="zoo"><module name="m"/></schema>'])
def test_nothing_to_store(text: str, here: Path, model_folder: str) -> None:
    (here / "zoo.xml").write_text(text)
    result = call("layout", "zoo.xml", "--model", model_folder)
    assert result.exit_code == 0
    assert "0 tokens stored" in result.stdout


def test_a_fault(here: Path, model_folder: str) -> None:
    result = call("layout", "why.xml", "--model", model_folder, "--json")
    assert result.exit_code == 1
    assert "is no schema" in object_on(result.stdout)["error"]["message"]
