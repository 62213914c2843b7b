from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

import pytest
from transformers import PreTrainedTokenizerFast

from promptcache.errors import TurnError
from promptcache.layout.text.conversation import Markers, Rendering, Trim, fresh_part, markers, render
from promptcache.models.loading import LoadedModel
from promptcache.models.tokenizer import HFTokenizer
from promptcache.source import Source, Span
from tests.tokenizers import PUBLISHED, byte_level, published

NAMES = sorted(PUBLISHED)
STRIP = Trim(None, None)
CONTENTS = ("You are kind.", "Hello there!", "How are you?\n\nfine", "1 < 2 & {{ 3 }}", "東京")
ADAPTERS = {name: HFTokenizer(published(name)) for name in NAMES}


def with_template(template: str) -> HFTokenizer:
    return HFTokenizer(byte_level(template, bos=None))


def reference(wrapped: PreTrainedTokenizerFast, turns: Sequence[tuple[str, str]], **options: bool) -> object:
    messages = [{"role": role, "content": content} for role, content in turns]
    return wrapped.apply_chat_template(messages, return_dict=False, **options)


@cache
def orders(name: str) -> tuple[list[tuple[str, str]], ...]:
    """Every order of up to five turns that the template writes in full."""
    return tuple(_orders(published(name)))


def _orders(wrapped: PreTrainedTokenizerFast) -> Iterator[list[tuple[str, str]]]:
    for length in range(1, 6):
        for roles in itertools.product(("system", "user", "assistant"), repeat=length):
            turns = list(zip(roles, CONTENTS, strict=False))
            try:
                text = str(reference(wrapped, turns, tokenize=False))
            except Exception:
                continue
            if all(content in text for _, content in turns):
                yield turns


def joined(rendering: Rendering) -> str:
    return "".join(gap + content for gap, content in zip(rendering.gaps, (*rendering.contents, ""), strict=True))


def ids_of(tokenizer: HFTokenizer, rendering: Rendering) -> list[int]:
    """Token ids as the layout makes them, when nothing cuts the conversation: gaps split, runs joined with contents."""
    pieces: list[int | str] = []
    for gap, content in zip(rendering.gaps, (*rendering.contents, ""), strict=True):
        for piece in (*tokenizer.split(gap), content):
            if isinstance(piece, str) and pieces and isinstance(pieces[-1], str):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    ids: list[int] = []
    for n, piece in enumerate(pieces):
        if isinstance(piece, int):
            ids.append(piece)
        else:
            behind = pieces[n - 1] if n else None
            ids += tokenizer.encode(piece, behind=behind if isinstance(behind, int) else None, start=n == 0)
    return ids


@pytest.mark.parametrize("name", NAMES)
def test_every_legal_order_equals_the_chat_template(name: str) -> None:
    tokenizer, wrapped = ADAPTERS[name], published(name)
    legal = orders(name)
    # Gemma's checks refuse a system turn only where it is the first or stands in a user's place.
    assert len(legal) == {"gemma": 13, "llama2": 9, "llama2-legacy": 9}.get(name, 363)
    for turns in legal:
        # Long conversations open the reply where that is what happens: behind a user's turn.
        for open_assistant in (True, False) if len(turns) < 4 else (turns[-1][0] == "user",):
            rendering = render(tokenizer, turns, open_assistant=open_assistant)
            options = {"add_generation_prompt": open_assistant}
            assert joined(rendering) == reference(wrapped, turns, tokenize=False, **options)
            assert rendering.contents == tuple(content for _, content in turns)
            assert ids_of(tokenizer, rendering) == reference(wrapped, turns, tokenize=True, **options)


@pytest.mark.model
def test_every_legal_order_on_the_default_model(real_engine_model: LoadedModel) -> None:
    wrapped = real_engine_model.tokenizer
    tokenizer = HFTokenizer(wrapped)
    for turns in _orders(wrapped):
        if len(turns) < 4:
            rendering = render(tokenizer, turns, open_assistant=True)
            assert ids_of(tokenizer, rendering) == reference(wrapped, turns, tokenize=True, add_generation_prompt=True)


@pytest.mark.parametrize("name", NAMES)
def test_an_illegal_order_is_refused_with_a_reason(name: str) -> None:
    legal = {tuple(role for role, _ in turns) for turns in orders(name)}
    for length in range(1, 4):
        for roles in itertools.product(("system", "user", "assistant"), repeat=length):
            if roles not in legal:
                with pytest.raises(TurnError, match=r"System role|must alternate|leaves out turn \d"):
                    render(ADAPTERS[name], list(zip(roles, CONTENTS, strict=False)), open_assistant=True)


@pytest.mark.parametrize("name", NAMES)
def test_markers_and_contents_make_up_the_conversation(name: str) -> None:
    for turns in orders(name):
        found = markers(ADAPTERS[name], [role for role, _ in turns])
        text = "".join(turn.open + content + turn.close for turn, (_, content) in zip(found, turns, strict=True))
        assert text == reference(published(name), turns, tokenize=False)


def test_markers_of_published_templates() -> None:
    assert markers(ADAPTERS["smollm2"], ["system", "user"]) == (
        Markers("<|im_start|>system\n", "<|im_end|>\n"),
        Markers("<|im_start|>user\n", "<|im_end|>\n"),
    )
    assert markers(ADAPTERS["qwen2.5"], ["user"])[0].open == (
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\n"
    )
    # The system turn alone is written as nothing at all, so what stands behind it opens the user's turn.
    assert markers(ADAPTERS["llama2"], ["system", "user", "assistant", "user"]) == (
        Markers("<s>[INST] <<SYS>>\n", ""),
        Markers("\n<</SYS>>\n\n", " [/INST]", Trim("", None)),
        Markers(" ", " </s>", STRIP),
        Markers("<s>[INST] ", " [/INST]", STRIP),
    )
    assert markers(ADAPTERS["llama2"], ["system"]) == (Markers("<s>[INST] <<SYS>>\n", ""),)
    assert markers(ADAPTERS["gemma"], ["user", "assistant"]) == (
        Markers("<bos><start_of_turn>user\n", "<end_of_turn>\n", STRIP),
        Markers("<start_of_turn>model\n", "<end_of_turn>\n", STRIP),
    )
    with pytest.raises(TurnError, match="System role not supported"):
        markers(ADAPTERS["gemma"], ["system", "user"])


def test_markers_where_a_shorter_conversation_ends_differently() -> None:
    # Only the last turn is closed by a full stop; the others by a semicolon.
    tokenizer = with_template(
        "{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ ('.' if loop.last else ';') }}{% endfor %}"
    )
    assert markers(tokenizer, ["user", "assistant"]) == (Markers("user:", ""), Markers(";assistant:", "."))


@pytest.mark.parametrize(
    ("name", "turns", "contents"),
    [
        ("smollm2", [("user", " a \n")], (" a \n",)),
        ("gemma", [("user", " a \n"), ("assistant", "\n\nb")], ("a", "b")),
        ("llama2", [("user", " a \n"), ("assistant", "\tb ")], ("a", "b")),
        # Folded in, the system's content keeps its edges and the user's loses only its right one.
        ("llama2", [("system", " s\n"), ("user", " a \n")], (" s\n", " a")),
    ],
)
def test_white_space_at_edges(name: str, turns: list[tuple[str, str]], contents: tuple[str, ...]) -> None:
    rendering = render(ADAPTERS[name], turns, open_assistant=False)
    assert rendering.contents == contents
    trims = [turn.trim for turn in markers(ADAPTERS[name], [role for role, _ in turns])]
    assert [trim(content) for trim, (_, content) in zip(trims, turns, strict=True)] == list(contents)
    assert joined(rendering) == reference(published(name), turns, tokenize=False)


@pytest.mark.parametrize("name", NAMES)
def test_stripping_is_found_out_without_white_space(name: str) -> None:
    strips = name in ("gemma", "llama2", "llama2-legacy")
    assert markers(ADAPTERS[name], ["user"])[0].trim == (STRIP if strips else Trim())


@pytest.mark.parametrize(
    ("expression", "given", "expected"),
    [
        ("m.content.lstrip('\n')", "\n\n a \n", " a \n"),
        ("m.content.strip('\n')", "\n\n a \n", " a "),
        ("m.content.rstrip()", " a \n", " a"),
        ("m.content | trim", "\u00a0 a \x0b\x0c", "a"),
    ],
)
def test_partial_stripping(expression: str, given: str, expected: str) -> None:
    tokenizer = with_template("{% for m in messages %}{{ m.role ~ '\n' ~ " + expression + " ~ '\n' }}{% endfor %}")
    for turns in ([("user", given)], [("user", given), ("assistant", given)]):
        rendering = render(tokenizer, turns, open_assistant=False)
        assert rendering.contents == (expected,) * len(turns)


@pytest.mark.parametrize("name", NAMES)
def test_empty_contents(name: str) -> None:
    for turns in ([("user", "")], [("user", ""), ("assistant", ""), ("user", "")]):
        rendering = render(ADAPTERS[name], turns, open_assistant=True)
        assert joined(rendering) == reference(published(name), turns, tokenize=False, add_generation_prompt=True)


def test_white_space_only_contents() -> None:
    rendering = render(ADAPTERS["gemma"], [("user", " \n")], open_assistant=False)
    assert rendering.contents == ("",)


def test_contents_that_hold_stand_ins_and_markup_are_left_alone() -> None:
    for content in (
        "zq0turnqz zq1turnqz",
        "{{ messages }}",
        "{% raw %}",
        "<|im_start|>user\n",
        "\\n",
        "\0",
        "a\r\nb",
        "x" * 10**6,
    ):
        rendering = render(ADAPTERS["smollm2"], [("user", content), ("assistant", content)], open_assistant=False)
        assert rendering.contents == (content, content)


SPANS = tuple(Span(Source("<prompt>", "a\nb\nc"), line, 1) for line in (1, 2, 3))


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("m.content.split('</think>')[-1]", r"changes the content of turn 2 \(assistant\)"),
        ("m.content | replace('<', '[')", r"changes the content of turn 2 \(assistant\)"),
        ("m.content.strip(' ')", r"changes the content of turn 1 \(user\)"),
        ("m.content if m.content != 'c' else 'C'", r"changes the content of turn 3 \(user\)"),
        ("m.content if m.role == 'user' else ''", r"leaves out turn 2 \(assistant\)"),
        ("m.content ~ m.content", r"repeats turn 1 \(user\)"),
    ],
)
def test_a_template_that_changes_a_turn_is_refused(expression: str, what: str) -> None:
    tokenizer = with_template("{% for m in messages %}{{ '|' ~ " + expression + " }}{% endfor %}")
    turns = [("user", " a "), ("assistant", "<think>x</think>b"), ("user", "c")]
    with pytest.raises(TurnError, match=what) as caught:
        render(tokenizer, turns, open_assistant=False, spans=SPANS)
    assert caught.value.hint
    assert str(caught.value.line) in what


def test_a_template_that_turns_the_conversation_round_is_refused() -> None:
    tokenizer = with_template("{% for m in messages | reverse %}{{ '|' ~ m.content }}{% endfor %}")
    with pytest.raises(TurnError, match=r"changes the order of turn 2 \(assistant\)"):
        render(tokenizer, [("user", "a"), ("assistant", "b")], open_assistant=False)


def test_a_template_that_looks_at_several_contents_together_is_refused() -> None:
    tokenizer = with_template(
        "{{ 'SAME' if messages[0].content == messages[1].content }}{% for m in messages %}|{{ m.content }}{% endfor %}"
    )
    with pytest.raises(TurnError, match="around these contents"):
        render(tokenizer, [("user", "a"), ("assistant", "a")], open_assistant=False)


def test_only_a_missing_content_is_refused_where_empty_means_something() -> None:
    tokenizer = with_template("{% for m in messages %}{{ '|' ~ (m.content or 'nothing') }}{% endfor %}")
    with pytest.raises(TurnError, match=r"changes the content of turn 2"):
        render(tokenizer, [("user", "a"), ("assistant", "")], open_assistant=False)


@pytest.mark.parametrize(
    ("gap", "close", "open", "fresh"),
    [
        ("</a>\n<b>", "</a>\n", "<b>", ""),
        ("</a>\n<b>", "</a>\n", None, "<b>"),
        ("</a>\n<b>", None, "<b>", "</a>\n"),
        ("</a>\n<b>", None, None, "</a>\n<b>"),
        ("", "", "", ""),
        ("", None, None, ""),
        ("<b>", "", "<b>", ""),
    ],
)
def test_what_is_not_stored_of_a_gap_is_fresh(gap: str, close: str | None, open: str | None, fresh: str) -> None:
    assert fresh_part(gap, close=close, open=open, turn="turn 2 (user)") == fresh


@pytest.mark.parametrize(
    ("gap", "close", "open"),
    [
        ("</a>\n<b>", "</a>!", None),
        ("</a>\n<b>", None, "<c>"),
        ("</a>\n2.<b>", "</a>\n", "<b>"),
        ("</a><b>", "</a><", "><b>"),
        # The stored texts must not overlap in the gap.
        ("\n", "\n", "\n"),
        ("", "x", None),
        ("", None, "x"),
    ],
)
def test_a_gap_without_the_stored_text_is_an_error_that_shows_both(
    gap: str, close: str | None, open: str | None
) -> None:
    with pytest.raises(TurnError) as caught:
        fresh_part(gap, close=close, open=open, turn="turn 2 (user)")
    message = caught.value.message
    assert "turn 2 (user)" in message
    assert repr(gap) in message
    assert all(text in message for text in (repr(close)[1:-1], repr(open)[1:-1]) if text != "on")


def test_a_default_system_turn_that_goes_is_an_error() -> None:
    """SmolLM2 lays a lone user turn out behind a default system turn; a prompt that brings its own loses that one."""
    stored = markers(ADAPTERS["smollm2"], ["user"])[0]
    gaps = render(ADAPTERS["smollm2"], [("system", "x"), ("user", "y")], open_assistant=True).gaps
    with pytest.raises(TurnError, match="default system turn") as caught:
        fresh_part(gaps[1], close=None, open=stored.open, turn="turn 2 (user)")
    assert "SmolLM" in caught.value.message
    again = render(ADAPTERS["smollm2"], [("user", "y"), ("assistant", "z")], open_assistant=False).gaps
    assert fresh_part(again[0], close=None, open=stored.open, turn="turn 1 (user)") == ""
    assert fresh_part(again[1], close=stored.close, open=None, turn="turn 2 (assistant)") == "<|im_start|>assistant\n"


def test_numbered_turns_are_an_error_where_the_number_is_stored() -> None:
    tokenizer = with_template("{% for m in messages %}{{ loop.revindex ~ ':' ~ m.content ~ ';' }}{% endfor %}")
    stored = markers(tokenizer, ["user"])[0]
    gaps = render(tokenizer, [("user", "a"), ("assistant", "b")], open_assistant=False).gaps
    with pytest.raises(TurnError, match="numbers turns"):
        fresh_part(gaps[0], close=None, open=stored.open, turn="turn 1 (user)")
