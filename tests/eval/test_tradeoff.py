"""Suite `tradeoff`: what it measures, chooses and refuses, on a tiny model; and how it cuts contexts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.__main__ import main
from eval.config import EvalConfig
from eval.longbench.parts import PromptParts
from eval.longbench.split import split_context
from eval.longbench.tasks import find_task
from eval.rows import DEFAULT
from eval.tradeoff.cases import build
from eval.tradeoff.choice import halves, share_again, share_repaired, ttft_ratio, within_share, within_time
from eval.tradeoff.cut import cut, gold_piece
from eval.tradeoff.way import DEFAULT_WAYS, find_ways
from promptcache import PromptCache
from promptcache.errors import RequestError
from tests.eval.tiny_run import WIKI, save_data, save_model

WAYS = ["link:2", "query:0.2", "full", "anchored none", "compact query:0.2", "parameters link:2", "gaps none"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tradeoff")
    save_model(folder / "model")
    save_data(folder / "data", {"2wikimqa": [WIKI, {**WIKI, "context": WIKI["context"] * 2}]})
    return folder


def run(place: Path, out: Path, options: str) -> int:
    (place / "options.yaml").write_text(f"options: {options}\n")
    return main(
        [
            *("tradeoff", "--model", str(place / "model"), "--data", str(place / "data"), "--datasets", "2wikimqa"),
            *("--repeats", "2", "--config", str(place / "options.yaml"), "--out", str(out)),
        ]
    )


@pytest.fixture(scope="module")
def finished(place: Path) -> Path:
    options = f"{{lengths: [500, 400], ways: {json.dumps(WAYS)}, scored: [none, link:2]}}"
    assert run(place, place / "out", options) == 0
    return place / "out"


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "parts.jsonl").read_text().splitlines()]


def test_every_way_is_measured(finished: Path) -> None:
    assert [row["part"] for row in rows(finished)] == [
        f"2wikimqa/{n}/{length}" for length in (400, 500) for n in (0, 1)
    ]
    for row in rows(finished):
        ways = row["ways"]
        assert set(ways) == {*WAYS, "none", "compact none", "parameters none"}
        none, full, link, query = (ways[name] for name in ("none", "full", "link:2", "query:0.2"))
        assert full["mean_kl"] < 1e-6 and full["exact"] and full["repaired"] == full["again"] == full["stored"]
        assert none["repaired"] == none["again"] == 0 < none["mean_kl"] and not none["exact"]
        assert link["repaired"] == link["again"] == 2 * link["modules"]
        assert query["repaired"] == round(0.2 * query["stored"]) < query["again"]  # the pass that asks
        assert {len(way["ttft_ms"]) for way in ways.values()} == {2}
        assert {name for name, way in ways.items() if "score" in way} == {"none", "link:2"} and "score" in row["full"]
        assert ways["compact query:0.2"]["mean_kl"] == pytest.approx(query["mean_kl"], rel=0.05)  # no gaps: the same
        assert full["full_nll"] == pytest.approx(row["full"]["nll"], abs=1e-4)


def test_the_report(finished: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = (finished / "report.md").read_text()
    for words in ("| none ", "| full ", "at most 400 tokens", "Chosen on 2, reported on 2", "at most 30% again"):
        assert words in report
    assert "nan" not in report
    for picture in ("tradeoff.png", "tradeoff-ttft.png"):
        assert (finished / picture).read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(PromptCache, "from_pretrained", None)
    assert run(place, finished, f"{{lengths: [500, 400], ways: {json.dumps(WAYS)}, scored: [none, link:2]}}") == 0
    assert (finished / "report.md").read_text() == report


def test_a_wrong_count_ends_the_run(place: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    logits = PromptCache.continuation_logits
    monkeypatch.setattr(
        PromptCache, "continuation_logits", lambda self, *a, repair=None, **more: logits(self, *a, **more)
    )
    assert run(place, tmp_path / "out", "{lengths: [400], ways: [link:2], scored: []}") == 1
    assert "were run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{ways: none}", "ways is 'none'"),
        ("{ways: [lnik]}", "unknown repair 'lnik'"),
        ("{ways: [sideways none]}", "has the word 'sideways'"),
        ("{ways: [gaps compact none]}", "leaves no gaps"),
        ("{lengths: [0]}", "lengths is [0]"),
        ("{scored: link}", "scored is 'link'"),
        ("{wasy: [none]}", "did you mean 'ways'"),
    ],
)
def test_wrong_options(place: Path, tmp_path: Path, capsys, options: str, message: str) -> None:
    assert run(place, tmp_path / "out", options) == 1
    assert message in capsys.readouterr().err


def test_ways_bring_what_they_are_compared_with() -> None:
    assert next(way.name for way in find_ways(EvalConfig("tradeoff"))) == "none"
    assert {way.name for way in find_ways(EvalConfig("tradeoff"))} == set(DEFAULT_WAYS)
    named = find_ways(EvalConfig("tradeoff", options={"ways": ["anchored compact link:2"]}))
    assert [way.name for way in named] == ["none", "anchored compact none", "anchored compact link:2"]
    assert named[2].group == named[1].group == ("modular", "anchored", "compact")
    with pytest.raises(RequestError):
        find_ways(EvalConfig("tradeoff", options={"ways": []}))


def letters(text: str) -> list[int]:
    return list(text.encode())


def passages(*texts: str) -> str:
    return "".join(f"Passage {number}:\n{text}\n" for number, text in enumerate(texts, 1))


def test_cutting_keeps_the_gold_passage() -> None:
    task = find_task("2wikimqa")
    context = passages("x" * 40, "y" * 300, "z" * 30, "The answer is Rome.", "w" * 40)
    made = cut(task, PromptParts("I\n", context, "Q"), ("rome",), 150, letters)
    pieces = split_context("2wikimqa", made.context)
    assert any("Rome" in piece for piece in pieces) and len(pieces) >= 2
    assert len(made.text.encode()) <= 150
    assert all(piece.endswith("\n") for piece in pieces)
    numbers = [int(piece.split(":")[0].split()[1]) for piece in pieces]
    assert numbers == sorted(numbers)


def test_a_long_gold_passage_is_shortened_around_its_answer() -> None:
    task = find_task("2wikimqa")
    context = passages("a" * 50, "b" * 500 + "\nIt is Rome.\n" + "c" * 500, "d" * 50)
    made = cut(task, PromptParts("", context, ""), ("Rome",), 240, letters)
    (gold,) = [piece for piece in split_context("2wikimqa", made.context) if "Rome" in piece]
    assert gold.startswith("Passage 2:\n") and gold.endswith("It is Rome.\n") and len(gold) <= 80
    with pytest.raises(RequestError, match="leave no room"):
        cut(task, PromptParts("i" * 99, context, ""), ("Rome",), 90, letters)


def test_a_context_that_fits_stays_as_it_is() -> None:
    task = find_task("2wikimqa")
    parts = PromptParts("I\n", passages("a" * 20, "b" * 20, "c" * 20), "Q")
    assert cut(task, parts, ("zzz",), 999, letters) == parts


def test_gold_pieces() -> None:
    retrieval = find_task("passage_retrieval_en")
    pieces = ("Paragraph 1: one\n", "Paragraph 12: two\n")
    assert gold_piece(retrieval, pieces, ("Paragraph 12",)) == 1
    assert gold_piece(retrieval, pieces, ("Paragraph 2",)) is None
    assert gold_piece(find_task("multi_news"), pieces, ("one",)) is None


def test_kinds_of_prompts(place: Path) -> None:
    engine = PromptCache.from_pretrained(str(place / "model"))
    task, parts = find_task("2wikimqa"), PromptParts("I\n", passages("one", "two"), "Q?")
    ids = {}
    for kind in ("modular", "parameters", "gaps"):
        case = build(task, parts, kind, "x")
        engine.load_schema(case.schema)
        ids[kind] = engine.plan(case.prompt)
    assert len({plan.token_ids for plan in ids.values()}) == 1  # bytes: no border changes a token
    spans = {kind: plan.position_ids[-1] - plan.num_tokens for kind, plan in ids.items()}
    # each number fills two of six slots with its space; one gap of 32
    assert spans["parameters"] == spans["modular"] + 2 * 4 and spans["gaps"] == spans["modular"] + 32
    assert ids["parameters"].count("fresh") == ids["modular"].count("fresh") + 2 * 2


def test_choices() -> None:
    def row(index: int, **kl: float) -> dict[str, Any]:
        again = {"none": 0, "a": 10, "b": 25}
        times = {"none": 100.0, "a": 140.0, "b": 300.0}
        ways = {
            name: {"mean_kl": kl[name], "again": again[name], "repaired": 5, "stored": 100, "ttft_ms": [times[name]]}
            for name in again
        }
        return {"index": index, "ways": ways}

    found = [row(0, none=1.0, a=0.5, b=0.1), row(1, none=1.0, a=0.2, b=0.3)]
    choosing, reporting = halves(found)
    names = ["none", "a", "b"]
    assert (len(choosing), len(reporting)) == (1, 1)
    assert share_again(found, "b") == 0.25 and share_repaired(found, "b") == 0.05
    assert within_share(choosing, names, 0.15) == "a" and within_share(choosing, names, 0.3) == "b"
    assert within_share(reporting, names, 0.3) == "a"
    assert ttft_ratio(found, "b") == 3 and within_time(choosing, names, 1.5) == "a"


def test_the_settings_for_two_cores_have_the_default_way() -> None:
    settings = yaml.safe_load((Path(__file__).parents[2] / "eval" / "tradeoff.yaml").read_text())
    assert DEFAULT in settings["options"]["ways"] and DEFAULT in DEFAULT_WAYS
