"""`promptcache run`: answers, numbers, where schemas are found, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from promptcache.models.loading import load_model
from tests.cli.commands import PROMPT, SCHEMA, call, object_on


def test_it_answers(here: Path, model_folder: str) -> None:
    result = call("run", "why.xml", "--model", model_folder, "--max-new-tokens", 3)
    assert result.exit_code == 0
    assert "prompt tokens: " in result.stderr
    assert "reused" not in result.stdout


def test_json_is_one_object(here: Path, model_folder: str) -> None:
    result = call("run", "why.xml", "--model", model_folder, "--max-new-tokens", 3, "--json")
    done = object_on(result.stdout)
    assert done["finish_reason"] == "length"
    assert len(done["token_ids"]) == done["usage"]["completion_tokens"] == 3
    assert done["usage"]["reused_tokens"] > 0
    assert done["timings"]["ttft_ms"] > 0


@pytest.mark.parametrize("more", [(), ("--compare",)])
def test_what_other_code_prints_is_not_in_the_json(
    more: tuple[str, ...], here: Path, model_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(path: object, **options: Any) -> Any:
        print("noise")
        return load_model(str(path), **options)

    monkeypatch.setattr("promptcache.engine.load_model", noisy)
    result = call("run", "why.xml", "--model", model_folder, "--max-new-tokens", 1, "--json", *more)
    object_on(result.stdout)
    assert "noise" in result.stderr


def test_no_reuse_gives_the_same_ids_to_the_model(here: Path, model_folder: str) -> None:
    reuse, none = (
        object_on(call("run", "why.xml", "--model", model_folder, "--json", *more).stdout)["usage"]
        for more in ((), ("--no-reuse",))
    )
    assert none["prompt_tokens"] == reuse["prompt_tokens"] == none["computed_tokens"]
    assert none["reused_tokens"] == 0


def test_compare_shows_both(here: Path, model_folder: str) -> None:
    result = call("run", "why.xml", "--model", model_folder, "--max-new-tokens", 2, "--compare")
    assert result.exit_code == 0
    for expected in ("with reuse", "without", "time to first token", "first token sooner by", "answer"):
        assert expected in result.stdout


def test_compare_as_json(here: Path, model_folder: str) -> None:
    both = object_on(call("run", "why.xml", "--model", model_folder, "--compare", "--json").stdout)
    assert set(both) == {"reuse", "baseline", "speedup"}
    assert both["baseline"]["usage"]["reused_tokens"] == 0 < both["reuse"]["usage"]["reused_tokens"]


def test_sampling_options_arrive(here: Path, model_folder: str) -> None:
    def ids(*more: object) -> list[int]:
        common = ("run", "why.xml", "--model", model_folder, "--json", "--max-new-tokens", 8)
        done: dict[str, list[int]] = object_on(call(*common, *more).stdout)
        return done["token_ids"]

    hot = ("--temperature", 5, "--seed")
    assert ids(*hot, 1) == ids(*hot, 1) != ids(*hot, 2)
    assert ids(*hot, 1, "--top-k", 1) == ids()
    assert ids(*hot, 1, "--top-p", 1e-6) == ids()
    for refused in (("--repetition-penalty", 0), ("--stop", ""), ("--top-p", 2)):
        assert call("run", "why.xml", "--model", model_folder, *refused).exit_code == 1


@pytest.mark.parametrize("more", [("--schema", "other/zoo.xml"), ("--schemas", "other")])
def test_schemas_elsewhere(more: tuple[str, str], here: Path, model_folder: str) -> None:
    (here / "other").mkdir()
    (here / "zoo.xml").rename(here / "other" / "zoo.xml")
    assert call("run", "why.xml", "--model", model_folder, *more, "--max-new-tokens", 1).exit_code == 0


@pytest.mark.parametrize("inside", [False, True])
def test_the_schema_beside_a_folder_of_its_prompts(
    inside: bool, here: Path, model_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "zoo.prompts").mkdir()
    prompt = (here / "why.xml").rename(here / "zoo.prompts" / "why.xml").relative_to(here)
    if inside:
        monkeypatch.chdir(here / "zoo.prompts")
        prompt = Path("why.xml")
    assert call("run", prompt, "--model", model_folder, "--max-new-tokens", 1).exit_code == 0


def test_a_schema_that_no_file_declares(here: Path, model_folder: str) -> None:
    (here / "zoo.xml").write_text('<schema name="farm">Cows.</schema>')
    result = call("run", "why.xml", "--model", model_folder)
    assert result.exit_code == 1
    assert 'why.xml:1:1: no file declares the schema "zoo"' in result.stderr
    assert "found: farm" in result.stderr


def test_two_files_that_declare_one_schema(here: Path, model_folder: str) -> None:
    (here / "zoo2.xml").write_text(SCHEMA)
    result = call("run", "why.xml", "--model", model_folder)
    assert result.exit_code == 1
    assert "both zoo.xml and zoo2.xml declare" in result.stderr
    assert call("run", "why.xml", "--model", model_folder, "--schema", "zoo2.xml").exit_code == 0


def test_a_plain_prompt_needs_no_schema(here: Path, model_folder: str) -> None:
    (here / "plain.xml").write_text("<prompt>Hello</prompt>")
    usage = object_on(call("run", "plain.xml", "--model", model_folder, "--json").stdout)["usage"]
    assert usage["prompt_tokens"] == usage["fresh_tokens"] == 5


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (PROMPT.replace("cats", "cat"), 'why.xml:1:22: schema "zoo" has no module "cat"'),
        (PROMPT.replace("</prompt>", ""), "why.xml:1:"),
        (PROMPT.replace('"3"', '"three times"'), "feed"),
    ],
)
def test_faults_of_a_prompt(prompt: str, message: str, here: Path, model_folder: str) -> None:
    (here / "why.xml").write_text(prompt)
    result = call("run", "why.xml", "--model", model_folder, "--json")
    assert result.exit_code == 1
    assert message in result.stderr
    told = object_on(result.stdout)
    assert told["error"]["file"] == "why.xml"
    assert told["error"]["line"] == 1


def test_a_prompt_that_is_not_there(here: Path, model_folder: str) -> None:
    result = call("run", "nothing.xml", "--model", model_folder)
    assert result.exit_code == 1
    assert "nothing.xml cannot be read" in result.stderr


def test_a_model_that_is_not_there(here: Path) -> None:
    result = call("run", "why.xml", "--model", "./nothing")
    assert result.exit_code == 1
    assert "there is no such folder" in result.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        ("--dtype", "float8"),
        ("--layout", "sideways"),
        ("--encoding", "rot13"),
        ("--repair", "duct-tape"),
        ("--max-new-tokens", 0),
        ("--temperature", -1),
        ("--compare", "--no-reuse"),
        ("--frobnicate",),
    ],
)
def test_wrong_usage(wrong: tuple[object, ...], here: Path, model_folder: str) -> None:
    result = call("run", "why.xml", "--model", model_folder, *wrong)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert str(wrong[0]).removeprefix("--") in result.stderr
