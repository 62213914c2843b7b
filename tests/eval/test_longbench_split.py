"""Contexts fall into natural pieces, and the pieces joined are the context."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.longbench.data import load_dataset
from eval.longbench.split import SPLITTERS, Windows, split_context
from eval.longbench.tasks import TASKS
from promptcache.errors import RequestError
from tests.eval.shared_data import LONGBENCH, needs_longbench


@pytest.mark.parametrize(
    ("dataset", "pieces"),
    [
        ("hotpotqa", ["Passage 1:\nA\nPassage 7 said\n", "Passage 2:\nB. See Passage 3: no\n\n", "Passage 3:\nC"]),
        # A heading that a passage quotes does not count on.
        ("multi_news", ["Passage 1:\nx\n", "Passage 2:\nPassage 1:\nquoted\n", "Passage 10:\ny"]),
        # What stands before the first heading is a piece.
        ("musique", ["Intro\n", "Passage 1:\nA"]),
        ("passage_count", ["Paragraph 1: A\n\n", "Paragraph 2: B"]),
        ("passage_retrieval_en", ["Paragraph 1: A\n\n", "Paragraph 2: Paragraph 9: no"]),
        ("trec", ["Question: a ?\nType: X\n", "Question: b ?\nType: Y"]),
        ("triviaqa", ["Passage:\na\nQuestion:\nb\nAnswer:\nc\n", "Passage:\nd Passage: e\n"]),
        ("samsum", ["Dialogue: A: hi\r\nB: ho\nSummary: s\n", "Dialogue: C: x\nSummary: t\n"]),
        ("repobench-p", ["a/b.py\nimport c.py\n", "a/b.py\nx = 1\n", "Main.java\nclass Main {}\n"]),
    ],
)
def test_natural_pieces(dataset: str, pieces: list[str]) -> None:
    assert split_context(dataset, "".join(pieces)) == tuple(pieces)


def test_windows_end_at_sentences_else_lines_else_words_else_anywhere() -> None:
    windows = SPLITTERS["narrativeqa"]
    assert isinstance(windows, Windows)
    small = Windows("window", 20, windows.ends)

    def pieces(text: str) -> list[str]:
        cuts = [0, *small.borders(text), len(text)]
        return [text[a:b] for a, b in itertools.pairwise(cuts)]

    assert pieces('It was cold. "Go!" he said, and left.') == ['It was cold. "Go!"', " he said, and left."]
    assert pieces("It was cold, no? We went on.") == ["It was cold, no?", " We went on."]
    assert pieces("It was dark.\n\nThen it was not.") == ["It was dark.\n\n", "Then it was not."]
    assert pieces("roses are red\nviolets are blue") == ["roses are red\n", "violets are blue"]
    assert pieces("one two three four five six") == ["one two three four", " five six"]
    assert pieces("x" * 45) == ["x" * 20, "x" * 20, "x" * 5]
    assert pieces("y" * 20) == ["y" * 20]


def test_code_is_cut_at_line_ends() -> None:
    code = "".join(f"line_{number} = '{'.' * 40} x'\n" for number in range(200))
    pieces = split_context("lcc", code)
    assert len(pieces) > 3 and all(piece.endswith("\n") for piece in pieces)


@pytest.mark.parametrize("dataset", TASKS)
def test_odd_contexts(dataset: str) -> None:
    assert split_context(dataset, "") == ()
    for text in (" ", "\n", "\x00\r\n\u2028", "Passage 1:", "Passage " + "9" * 5000 + ":", "Question: " * 3):
        pieces = split_context(dataset, text)
        assert "".join(pieces) == text and all(pieces)


@pytest.mark.parametrize("dataset", ["narrativeqa", "lcc", "hotpotqa", "repobench-p"])
@pytest.mark.parametrize("unit", ["x", " ", "\n", ". ", ".\n", ".)\t", "Passage 1:\n", "a.py\n"])
def test_huge_contexts_take_no_time(dataset: str, unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    started = time.perf_counter()
    pieces = split_context(dataset, text)
    assert time.perf_counter() - started < 2
    assert "".join(pieces) == text


@settings(deadline=None)
@given(dataset=st.sampled_from(sorted(TASKS)), text=st.text(alphabet='a .\n"12:Pe', max_size=200))
def test_pieces_joined_are_the_context(dataset: str, text: str) -> None:
    pieces = split_context(dataset, text)
    assert "".join(pieces) == text and all(pieces)


def test_each_dataset_is_in_the_table_and_no_other() -> None:
    assert set(SPLITTERS) == set(TASKS)
    with pytest.raises(RequestError, match="unknown LongBench dataset"):
        split_context("dureader", "x")


@needs_longbench
@pytest.mark.parametrize("dataset", TASKS)
def test_all_real_records_split_into_several_pieces(dataset: str) -> None:
    for record in load_dataset(dataset, LONGBENCH):
        pieces = split_context(dataset, record.context)
        assert "".join(pieces) == record.context
        assert len(pieces) > 1
        headings = re.findall(r"^(?:Passage|Paragraph) \d+:", record.context, re.MULTILINE)
        if SPLITTERS[dataset].piece in ("passage", "paragraph"):
            assert len(pieces) == len(headings)
        if SPLITTERS[dataset].piece == "window":
            assert max(map(len, pieces)) <= 2048
