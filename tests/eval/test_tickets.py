"""The ticket suite on a tiny model: every row scores as full re-encoding does, and the counts are the truth."""

from __future__ import annotations

import json

import numpy as np
import pytest

from eval.config import EvalConfig
from eval.hook import MeasurementError
from eval.results import RunFolder
from eval.suites import tickets
from eval.tickets.data import Ticket, read_tickets, spread
from eval.tickets.instruction import answers_of, instruction
from promptcache.errors import RequestError
from promptcache.runtime.prefix import Prefix
from tests.tiny import tiny_llama
from tests.tokenizers import published


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = published("smollm2")
    tokenizer.save_pretrained(folder)
    tiny_llama(vocab_size=len(tokenizer), max_position_embeddings=20_000).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("csv") / "tickets.csv"
    words = ["card", "transfer", "limit", "refund"]
    lines = [f"where is my {words[n % 4]} number {n}?,{words[n % 4]}_{'lost' if n % 3 else 'late'}" for n in range(40)]
    file.write_text("text,category\n" + "\n".join(lines) + "\n")
    return file


def test_all_rows_agree_and_a_second_run_computes_nothing(model_folder, csv_file, tmp_path, monkeypatch):
    config = EvalConfig("tickets", data=csv_file, model=str(model_folder), out=tmp_path / "run")
    tickets.run(config, RunFolder(config.folder, config))
    parts = [json.loads(line) for line in (config.folder / "parts.jsonl").read_text().splitlines()]
    assert [part["part"] for part in parts][:2] == ["main/0", "main/1"] and len(parts) == 9
    for part in parts:
        rows = part["rows"]
        full = np.array(rows["full"]["scores"])
        for name, row in rows.items():
            if name != "floor":
                assert np.abs(np.array(row["scores"]) - full).max() < 1e-3, name
        items = len(full)
        saved = part["static_tokens"] * items
        assert rows["full"]["tokens"] - rows["ours"]["tokens"] == pytest.approx(saved, abs=2 * items)
        assert len({rows[name]["tokens"] for name in ("crop", "deepcopy", "floor") if name in rows}) == 1
        if part["part"].startswith("letters/"):
            # No label takes a token of its own.
            assert rows["ours"]["tokens"] == pytest.approx(part["item_tokens"] * items, abs=2 * items)
        if not part["part"].startswith("curve/"):
            one, batched = rows["ours"], rows["ours, batches of 32"]
            assert len(batched["ms"]) == items and batched["tokens"] == one["tokens"]
            assert len(set(batched["ms"])) == 1 < len(set(one["ms"]))
    report = (config.folder / "report.md").read_text()
    assert "full in batches of 32 / ours in batches of 32" in report
    assert "One letter for each label" in report and report.count("| ours, batches of 32") == 2
    assert "40 tickets" in report and "ours / crop recipe" in report and (config.folder / "curve.png").exists()
    monkeypatch.setattr(tickets, "_Bench", None)
    tickets.run(config, RunFolder(config.folder, config))


def test_a_batch_that_scores_otherwise_ends_the_run(model_folder, csv_file, tmp_path, monkeypatch):
    whole = Prefix.score_batch

    def shifted(self, suffixes, *rest, **more):
        # As if each row had got the answer of another one.
        return whole(self, [*suffixes[1:], suffixes[0]], *rest, **more)

    monkeypatch.setattr(Prefix, "score_batch", shifted)
    config = EvalConfig("tickets", data=csv_file, model=str(model_folder), limit=5, out=tmp_path / "run")
    with pytest.raises(MeasurementError, match="from those one by one"):
        tickets.run(config, RunFolder(config.folder, config))
    assert not (config.folder / "parts.jsonl").exists()


def test_data_faults(tmp_path):
    for text in ("", "a,b\n1,2\n"):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(RequestError, match="no columns"):
            read_tickets(tmp_path / "bad.csv")
    with pytest.raises(RequestError, match="cannot be read"):
        read_tickets(tmp_path / "absent.csv")
    config = EvalConfig("tickets", out=tmp_path / "run")
    with pytest.raises(RequestError, match="--data"):
        tickets.run(config, RunFolder(config.folder, config))


def test_the_instruction_grows_with_the_share():
    examples = [Ticket(f"ticket {n}", "a label") for n in range(50)]
    for letters in (False, True):
        answers = answers_of(["a label", "b"], letters=letters)
        sizes = [len(instruction(answers, examples, len, n)) for n in (1, 100, 200, 1000)]
        assert sizes == sorted(set(sizes)) and sizes[-1] >= 1000
        text = instruction(answers, examples, len, 400)
        assert ("- A: a label\n- B: b\n" in text and "Category: A" in text) == letters


def test_a_limit_takes_tickets_from_all_over():
    found = [Ticket(str(n), "a") for n in range(10)]
    assert [ticket.text for ticket in spread(found, 3)] == ["0", "3", "6"]
    assert spread(found, 10) == spread(found, None) == spread(found, 99) == found and spread(found, 1) == found[:1]


def test_real_tickets(shared_data):
    found = read_tickets(shared_data / "tickets" / "banking77_600.csv")
    assert len(found) == 600 and len({ticket.category for ticket in found}) == 20
