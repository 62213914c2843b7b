"""Gaps move positions and nothing else."""

from __future__ import annotations

import pytest

from eval.engine import loaded
from eval.longbench.gap_case import build_gap_case, join_pieces
from eval.longbench.parts import PromptParts
from eval.longbench.tasks import TASKS
from promptcache import PromptCache
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

PARTS = PromptParts("Read: ", "Passage 1:\nA\nPassage 2:\nB\nPassage 3:\nC\n", "Who?")


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    return paper_engine(tiny_llama(max_position_embeddings=8192), byte_tokenizer())


def _plan(engine: PromptCache, task: str, gap: int, parts: PromptParts = PARTS):
    case = build_gap_case(TASKS[task], parts, gap, "0")
    with loaded(engine, case.schema):
        return engine.plan(case.prompt)


@pytest.mark.parametrize("gap", [1, 64, 2048])
def test_positions_by_hand(engine, gap) -> None:
    task, without = "2wikimqa", _plan(engine, "2wikimqa", 0)
    plan = _plan(engine, task, gap)
    assert plan.token_ids == without.token_ids
    assert list(without.position_ids) == list(range(without.num_tokens))
    text = bytes(i for i in plan.token_ids if i < 256)
    markers = plan.token_ids.index(ord("R")) - text.index(b"Read")
    places = [text.index(start) + markers for start in (b"Passage 2", b"Passage 3", b"Who?")]
    expected = [p + gap * sum(p >= place for place in places) for p in range(without.num_tokens)]
    assert list(plan.position_ids) == expected
    # Only the question and what the template writes behind it are computed.
    assert plan.num_tokens - plan.count("reused") == without.num_tokens - places[2]


def test_plain_prompts_have_the_same_gaps(engine) -> None:
    plan = _plan(engine, "trec", 10, PromptParts("", "Question: a\nQuestion: b\n", "Question: c"))
    assert bytes(plan.token_ids) == b"Question: a\nQuestion: b\nQuestion: c"
    assert list(plan.position_ids) == [*range(12), *range(22, 34), *range(44, 55)]


@pytest.mark.parametrize("parts", [PromptParts("", "", "q"), PromptParts("a", "Passage 1:\nA", "")])
def test_empty_parts(engine, parts) -> None:
    assert _plan(engine, "2wikimqa", 5, parts).token_ids == _plan(engine, "2wikimqa", 0, parts).token_ids


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        ((), ()),
        (("a",), ("a",)),
        (("a", "b"), ("a", "b")),
        (("a", "b", "c", "d", "e", "f"), ("ab", "cd", "ef")),
        (("a" * 10, "b", "c"), ("a" * 10, "bc")),
        (("a", "b", "c" * 10), ("ab", "c" * 10)),
    ],
)
def test_pieces_are_joined_in_order(pieces, joined) -> None:
    assert join_pieces(pieces, 3) == joined
    assert "".join(joined) == "".join(pieces)
