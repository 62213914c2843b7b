"""Scores of many items in one pass are those of each alone."""

from __future__ import annotations

import pytest

from promptcache.errors import RequestError
from promptcache.runtime import asked
from tests.engine.test_counts import HookCount
from tests.engine.test_prefix import LABELS, MESSAGES, merging_engine

ITEMS = ["my card is lost", "hello", "", "where is my card? " * 9, "I", "my card was stolen yesterday"]


@pytest.fixture(scope="module", params=["segments", "assembled"])
def engine(request):
    return merging_engine(attention=request.param)


def close(found, expected):
    assert [each.logprob for each in found] == pytest.approx([each.logprob for each in expected], abs=1e-4)
    assert [each.num_tokens for each in found] == [each.num_tokens for each in expected]


@pytest.mark.parametrize("batch_size", [1, 4, 32])
@pytest.mark.parametrize("start", ["Sort the ticket into one of the categories. " * 6, MESSAGES[:1]])
def test_scores_equal_those_one_by_one(engine, start, batch_size):
    prefix = engine.prefix(start)
    labels = [" " + label for label in LABELS]
    for found, item in zip(prefix.score_batch(ITEMS, labels, batch_size=batch_size), ITEMS, strict=True):
        close(found, prefix.score(item, labels))
    many = prefix.classify(ITEMS, LABELS, batch_size=batch_size)
    for found, item in zip(many, ITEMS, strict=True):
        alone = prefix.classify(item, LABELS)
        assert found.label == alone.label
        close(found.details.values(), alone.details.values())
    assert engine.store.stats().leases == 0


def test_a_string_is_one_item(engine):
    prefix = engine.prefix("Sort.\n")
    assert prefix.classify("card", LABELS).label == prefix.classify(["card"], LABELS)[0].label
    assert prefix.classify([], LABELS) == []


def test_a_batch_is_one_pass(monkeypatch):
    engine = merging_engine()
    prefix = engine.prefix("Sort the ticket.\n")
    passes = []
    hook = engine.model.register_forward_pre_hook(lambda *_: passes.append(1))
    prefix.classify(ITEMS, LABELS)
    assert len(passes) == 1
    prefix.classify(ITEMS, LABELS, batch_size=4)
    assert len(passes) == 3
    monkeypatch.setattr(asked, "_MOST_LOGITS", 1)
    prefix.classify(ITEMS, LABELS)
    hook.remove()
    assert len(passes) == 3 + len(ITEMS)
    with HookCount(engine) as one_by_one:
        for item in ITEMS:
            prefix.classify(item, LABELS)
    with HookCount(engine) as together:
        prefix.classify(ITEMS, LABELS)
    assert one_by_one.tokens == together.tokens


def test_a_faulty_item_has_its_number(engine):
    prefix = engine.prefix("Sort.\n")
    with pytest.raises(RequestError, match="number 1 of the batch"):
        prefix.score_batch(["a", [{"role": "user", "content": "a"}]], [" x"])
    with pytest.raises(RequestError, match="batch_size"):
        prefix.classify(["a"], LABELS, batch_size=0)
