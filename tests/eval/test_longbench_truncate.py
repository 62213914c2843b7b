"""A prompt is cut in the middle, just enough, and never at the question."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.longbench.parts import PromptParts
from eval.longbench.truncate import Mode, truncate
from promptcache.errors import RequestError
from tests.eval.toy_tokenizers import TOKENIZERS

PARTS = PromptParts("Read this. ", "zero one two three four five six seven eight nine", " What was it?")


def _cut_once(text: str, whole: str) -> bool:
    """Whether `text` is `whole` with one piece left out."""
    return any(whole.startswith(text[:i]) and whole.endswith(text[i:]) for i in range(len(text) + 1))


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("mode", ["context", "prompt"])
def test_below_and_at_the_limit_nothing_changes(name: str, mode: Mode) -> None:
    encode, decode = TOKENIZERS[name]
    size = len(encode(PARTS.text))
    for limit in (size, size + 1, 10 * size):
        assert truncate(PARTS, limit, encode, decode, mode=mode) is PARTS


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_limit_above_the_question_is_kept_and_only_the_context_is_cut(name: str) -> None:
    encode, decode = TOKENIZERS[name]
    size, frame = len(encode(PARTS.text)), len(encode(PARTS.before + PARTS.after))
    for limit in range(frame, size):
        shorter = truncate(PARTS, limit, encode, decode)
        assert (shorter.before, shorter.after) == (PARTS.before, PARTS.after)
        assert limit - 3 <= len(encode(shorter.text)) <= limit
        assert len(shorter.context) < len(PARTS.context) and _cut_once(shorter.context, PARTS.context)
    with pytest.raises(RequestError, match=f"{frame} tokens, the limit is {frame - 1}"):
        truncate(PARTS, frame - 1, encode, decode)


def test_one_above_takes_one_token_from_the_middle() -> None:
    encode, decode = TOKENIZERS["words"]
    shorter = truncate(PARTS, len(encode(PARTS.text)) - 1, encode, decode)
    assert shorter.context == "zero one two three four six seven eight nine"


def test_both_ends_stay_and_an_odd_limit_gives_the_head_one_more() -> None:
    encode, decode = TOKENIZERS["characters"]
    frame = len(PARTS.before) + len(PARTS.after)
    assert truncate(PARTS, frame + 8, encode, decode).context == "zeronine"
    assert truncate(PARTS, frame + 7, encode, decode).context == "zeroine"
    assert truncate(PARTS, frame + 1, encode, decode).context == "z"
    assert truncate(PARTS, frame, encode, decode).context == ""


def test_far_above_the_limit() -> None:
    encode, decode = TOKENIZERS["bytes"]
    parts = PromptParts("<", "ab" * 50_000, ">")
    assert truncate(parts, 12, encode, decode).text == "<" + "ab" * 2 + "a" + "b" + "ab" * 2 + ">"


def test_no_character_is_torn() -> None:
    encode, decode = TOKENIZERS["bytes"]
    parts = PromptParts("", "é😀" * 9, "")
    for limit in range(len(encode(parts.text))):
        shorter = truncate(parts, limit, encode, decode)
        assert _cut_once(shorter.context, parts.context)
        assert limit - len(encode(shorter.context)) <= 6  # at most three bytes a side


def test_the_prompt_way_is_longbench_s() -> None:
    encode, decode = TOKENIZERS["words"]
    ids = encode(PARTS.text)
    for limit in range(2, len(ids)):
        half = limit // 2
        shorter = truncate(PARTS, limit, encode, decode, mode="prompt")
        assert shorter.text == decode(ids[:half]) + decode(ids[-half:])


def test_the_prompt_way_at_its_end() -> None:
    encode, decode = TOKENIZERS["words"]
    # ids[-0:] would be everything: LongBench returns a longer prompt than it got.
    for limit in (1, 0, -5):
        assert truncate(PARTS, limit, encode, decode, mode="prompt").text == ""


def test_the_overhead_counts() -> None:
    encode, decode = TOKENIZERS["characters"]
    size = len(PARTS.text)
    assert truncate(PARTS, size + 5, encode, decode, overhead=5) is PARTS
    assert len(truncate(PARTS, size, encode, decode, overhead=5).text) == size - 5
    with pytest.raises(RequestError, match="the limit is 10"):
        truncate(PARTS, 10, encode, decode, overhead=20)


def test_a_measure_of_its_own_is_kept() -> None:
    encode, decode = TOKENIZERS["characters"]

    def measure(parts: PromptParts) -> int:
        return 2 * len(parts.context) + len(parts.before) + len(parts.after)

    shorter = truncate(PARTS, 60, encode, decode, measure=measure)
    assert 58 <= measure(shorter) <= 60


def test_an_empty_context() -> None:
    encode, decode = TOKENIZERS["characters"]
    parts = PromptParts("ab", "", "c")
    assert truncate(parts, 3, encode, decode) is parts
    with pytest.raises(RequestError):
        truncate(parts, 2, encode, decode)


@settings(deadline=None, max_examples=150)
@given(
    name=st.sampled_from(sorted(TOKENIZERS)),
    texts=st.tuples(*[st.text(alphabet="ab é😀\n.", max_size=size) for size in (6, 40, 6)]),
    limit=st.integers(-1, 60),
    mode=st.sampled_from(["context", "prompt"]),
)
def test_any_text_at_any_limit(name: str, texts: tuple[str, str, str], limit: int, mode: Mode) -> None:
    encode, decode = TOKENIZERS[name]
    parts = PromptParts(*texts)
    try:
        shorter = truncate(parts, limit, encode, decode, mode=mode)
    except RequestError:
        assert mode == "context" and len(encode(parts.before + parts.after)) > limit
        return
    assert len(encode(shorter.text)) <= max(limit, 0)
    assert len(shorter.text) <= len(parts.text) and _cut_once(shorter.text, parts.text)
    if mode == "context":
        assert (shorter.before, shorter.after) == (parts.before, parts.after)
