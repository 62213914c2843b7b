"""Texts of an exact number of tokens."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest

from eval.floor.text import Questions, fitted, split_evenly, texts, words
from tests.tokenizers import published


def _smollm2(text: str) -> list[int]:
    return published("smollm2")(text, add_special_tokens=False)["input_ids"]


ENCODERS = {"bytes": lambda text: list(text.encode()), "smollm2": _smollm2}


@pytest.fixture(params=sorted(ENCODERS))
def encode(request):
    return ENCODERS[request.param]


def test_modules_have_the_size_asked_for_and_go_on(encode) -> None:
    sizes = [1, 2, 7, 32, 33, 500]
    found = texts(sizes, lambda text: len(encode(text)), 0)
    assert [len(encode(text)) for text in found] == sizes
    assert all(text.endswith("\n") for text in found) and len(set(found)) == len(sizes)
    # Another seed gives other sentences.
    assert texts([500], lambda text: len(encode(text)), 1) != texts([500], lambda text: len(encode(text)), 0)


def test_64_modules_are_as_long_as_one(encode) -> None:
    sizes = split_evenly(2048, 64)
    found = texts(sizes, lambda text: len(encode(text)), 0)
    assert sum(len(encode(text)) for text in found) == 2048 and len(set(found)) == 64
    assert len(encode("".join(found))) == 2048


@pytest.mark.parametrize("tokens", [1, 8, 32, 64])
def test_questions_differ_from_the_first_token_on(encode, tokens) -> None:
    questions = Questions(encode, tokens, 0)
    asked = [encode(questions.text(number)) for number in range(30)]
    assert {len(ids) for ids in asked} == {tokens}
    assert len({tuple(ids) for ids in asked[:12]}) == len({ids[0] for ids in asked[:12]}) == 12
    assert all(first[0] != second[0] for first, second in pairwise(asked))
    if tokens > 8:
        assert len({tuple(ids) for ids in asked}) == 30


def test_sizes_add_up() -> None:
    assert split_evenly(10, 4) == [3, 3, 2, 2] and split_evenly(3, 3) == [1, 1, 1]


def test_a_tokenizer_that_allows_no_exact_length_gets_the_longest_below() -> None:
    source = list(islice(words(0), 9))
    text, taken = fitted(source, 3, lambda text: 2 * len(text.split()))
    assert text.split() == source[:1] and taken == 1


def test_no_two_modules_are_alike() -> None:
    """Cut after every word, sentences repeat soon."""
    found = texts([1] * 40, lambda text: len(text.split()), 0)
    assert len(set(found)) == 40 and all(len(text.split()) == 1 for text in found)
    assert len(texts([1] * 300, lambda text: len(text.split()), 0)) == 300
