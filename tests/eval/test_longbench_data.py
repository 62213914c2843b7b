"""LongBench's files are read to the byte, wherever they come from."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from eval.longbench.data import load_dataset
from eval.longbench.parts import PromptParts, prompt_parts
from eval.longbench.record import parse_records
from eval.longbench.tasks import PAPER_DATASETS, TASKS
from promptcache.errors import RequestError
from tests.eval.shared_data import LONGBENCH, needs_longbench

NASTY = "a < b & c > d\r\n\u2028\u0085 <|im_end|> \x00 ]]> \ufeff{context} 😀\t"


def _line(**changes: Any) -> str:
    record = {
        "input": "Q?",
        "context": "C",
        "answers": ["A"],
        "length": 3,
        "dataset": "2wikimqa",
        "language": "en",
        "all_classes": None,
        "_id": "x",
    }
    return json.dumps(record | changes, ensure_ascii=False)


def test_texts_are_kept_to_the_byte(tmp_path: Path) -> None:
    lines = _line(context=NASTY) + "\n" + _line(input=NASTY, answers=[NASTY, ""]) + "\n"
    (tmp_path / "2wikimqa.jsonl").write_bytes(lines.encode())
    first, second = load_dataset("2wikimqa", tmp_path)
    assert first.context == NASTY and second.input == NASTY and second.answers == (NASTY, "")
    assert (first.index, second.index, first.id, first.all_classes) == (0, 1, "x", None)
    parts = prompt_parts(TASKS["2wikimqa"], second)
    assert parts.text == TASKS["2wikimqa"].template.format(context=second.context, input=second.input)


def test_a_zip_is_read_as_the_folder_is(tmp_path: Path) -> None:
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("data/2wikimqa.jsonl", _line(context=NASTY))
        out.writestr("data/2wikimqa_e.jsonl", _line(context="the other one"))
    assert [record.context for record in load_dataset("2wikimqa", archive)] == [NASTY]
    assert load_dataset("2wikimqa", tmp_path) == load_dataset("2wikimqa", archive)
    with pytest.raises(RequestError, match=r"no trec.jsonl") as caught:
        load_dataset("trec", archive)
    assert caught.value.hint == "it holds 2wikimqa"


def test_a_folder_as_the_zip_unpacks_to_is_fine(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lcc.jsonl").write_text(_line(dataset="lcc"))
    assert load_dataset("lcc", tmp_path)[0].dataset == "lcc"


def test_without_a_path_the_hub_s_file_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "cached.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("data/2wikimqa.jsonl", _line())
    asked = []

    def fake_download(*arguments: str, **options: str) -> str:
        asked.append((arguments, options))
        return str(archive)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake_download)
    assert len(load_dataset("2wikimqa")) == 1
    assert asked == [(("THUDM/LongBench", "data.zip"), {"repo_type": "dataset"})]


def test_offline_without_data_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: str, **__: str) -> str:
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(RequestError, match="could not be fetched") as caught:
        load_dataset("2wikimqa")
    assert "--data" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["2wikimqa_e", "dureader", "", "../2wikimqa"])
def test_an_unknown_dataset_lists_the_valid_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        load_dataset(name, tmp_path)
    assert all(task in str(caught.value.hint) for task in TASKS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not a line of JSON"),
        ("[1]", "a JSON list"),
        ('{"input": ""}', "'context'"),
        (_line(answers=[]), "'answers'"),
        (_line(answers="A"), "'answers'"),
        (_line(length="3"), "'length' is str"),
        (_line(context=None), "'context' is NoneType"),
        (_line(all_classes=[1]), "'all_classes'"),
        ("[" * 100_000, "not a line of JSON"),
        (_line().replace('"C"', '"\\ud800"'), "surrogates"),
    ],
)
def test_a_faulty_line_is_named(line: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        parse_records(f"{_line()}\n\n{line}\n".encode(), "f.jsonl")
    assert (caught.value.file, caught.value.line) == ("f.jsonl", 3)


def test_bytes_that_are_no_text_are_named() -> None:
    with pytest.raises(RequestError, match="UTF-8"):
        parse_records(b'{"input": "\xff"}', "f.jsonl")


def test_empty_files_and_a_byte_order_mark() -> None:
    assert parse_records(b"", "f") == parse_records(b"\n\n", "f") == ()
    assert len(parse_records(b"\xef\xbb\xbf" + _line().encode() + b"\r\n", "f")) == 1


def test_what_is_no_zip_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "data.zip").write_bytes(b"not a zip")
    with pytest.raises(RequestError, match="cannot be read as a zip"):
        load_dataset("lcc", tmp_path)
    with pytest.raises(RequestError, match="no LongBench data at"):
        load_dataset("lcc", tmp_path / "absent")
    (tmp_path / "data.zip").unlink()
    with pytest.raises(RequestError, match=r"no lcc.jsonl") as caught:
        load_dataset("lcc", tmp_path)
    assert "<dataset>.jsonl" in str(caught.value.hint)


def test_the_tasks_are_the_sixteen_and_the_paper_s_eight_are_among_them() -> None:
    assert len(TASKS) == 16 and set(PAPER_DATASETS) < set(TASKS) and len(PAPER_DATASETS) == 8
    assert {task.name for task in TASKS.values() if not task.chat} == {
        "trec",
        "triviaqa",
        "samsum",
        "lcc",
        "repobench-p",
    }


def test_leaving_out_a_range_takes_it_from_whichever_part_it_is_in() -> None:
    parts = PromptParts("abc", "defg", "hi")
    for start in range(10):
        for end in range(start, 10):
            shorter = parts.without(start, end)
            assert shorter.text == parts.text[:start] + parts.text[end:]
            left = [set(part) for part in (shorter.before, shorter.context, shorter.after)]
            assert left[0] <= set("abc") and left[1] <= set("defg") and left[2] <= set("hi")


@needs_longbench
def test_prompts_and_lengths_are_longbench_s_own() -> None:
    prompts = json.loads((LONGBENCH / "config" / "dataset2prompt.json").read_text(encoding="utf-8"))
    lengths = json.loads((LONGBENCH / "config" / "dataset2maxlen.json").read_text(encoding="utf-8"))
    for name, task in TASKS.items():
        assert task.template == prompts[name]
        assert task.max_new_tokens == lengths[name]


@needs_longbench
@pytest.mark.parametrize("name", TASKS)
def test_every_record_renders_as_longbench_does(name: str) -> None:
    records = load_dataset(name, LONGBENCH)
    raw = [json.loads(line) for line in (LONGBENCH / f"{name}.jsonl").read_bytes().split(b"\n") if line]
    assert len(records) == len(raw) > 0
    for record, fields in zip(records, raw, strict=True):
        assert prompt_parts(TASKS[name], record).text == TASKS[name].template.format(**fields)
        assert (record.id, list(record.answers)) == (fields["_id"], fields["answers"])
