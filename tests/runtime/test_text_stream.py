"""No broken characters; stop strings neither leaked nor lost."""

from __future__ import annotations

import itertools

import pytest

from promptcache.runtime.reply.text_stream import TextStream


def decode(ids):
    """A byte is a token; a partial character shows as the replacement character, as fast tokenizers do."""
    return bytes(ids).decode("utf-8", "replace")


def feed(text: str | bytes, stop=()) -> tuple[list[str], bool]:
    stream = TextStream(decode, stop)
    pieces = []
    for byte in text.encode() if isinstance(text, str) else text:
        pieces.append(stream.push(byte))
        if stream.stopped:
            break
    return [*pieces, stream.flush()], stream.stopped


@pytest.mark.parametrize("text", ["plain", "naïve café", "日本語 🎉🎉", "🇩🇪 flags", ""])
def test_characters_come_whole(text):
    pieces, _ = feed(text)
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_an_incomplete_end_is_not_lost():
    pieces, _ = feed("ok 🎉".encode()[:-1])
    assert "".join(pieces) == decode("ok 🎉".encode()[:-1])


@pytest.mark.parametrize("at", range(12))
def test_a_stop_string_wherever_it_stands(at):
    text = "abcabcabcabc"[:at] + "STOP" + "rest"
    pieces, stopped = feed(text, ["STOP", "zzz"])
    assert stopped and "".join(pieces) == text[:at]


def test_what_only_begins_like_a_stop_string_comes_out():
    for text in ("STO", "STOSTOST", "aSTOb", "SSSTO"):
        pieces, stopped = feed(text, ["STOP"])
        assert not stopped and "".join(pieces) == text


def test_every_short_text_over_two_letters():
    for length in range(7):
        for letters in itertools.product("ab", repeat=length):
            text = "".join(letters)
            pieces, stopped = feed(text, ["aab", "bb"])
            ends = [i for i in (text.find("aab"), text.find("bb")) if i >= 0]
            first_seen = min((text.find(s) + len(s) for s in ("aab", "bb") if s in text), default=None)
            assert stopped == bool(ends)
            if first_seen is None:
                assert "".join(pieces) == text
            else:
                assert "".join(pieces) == text[:first_seen].removesuffix("aab").removesuffix("bb")
