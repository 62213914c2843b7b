"""A conversation rendered as a whole, and what the template writes around each turn's content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from promptcache.errors import TurnError
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.source import Span

Turns = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Rendering:
    """`gaps[i]` is what the template writes before turn i's content; `gaps[-1]` what it writes behind the last.

    `contents` are the turns' contents as the template writes them: it may drop white space at their edges.
    """

    gaps: tuple[str, ...]
    contents: tuple[str, ...]


@dataclass(frozen=True)
class Trim:
    """White space that a template drops at both edges of a content: these characters, none, or any (None)."""

    left: str | None = ""
    right: str | None = ""

    def __call__(self, content: str) -> str:
        return content.lstrip(self.left).rstrip(self.right)


@dataclass(frozen=True)
class Markers:
    """What the template writes to open and to close one turn in one conversation, and what it drops of its content."""

    open: str
    close: str
    trim: Trim = Trim()


def render(tokenizer: Tokenizer, turns: Turns, *, open_assistant: bool, spans: Sequence[Span | None] = ()) -> Rendering:
    """The conversation (role, content) as the model's template writes it.

    The gaps are found with stand-ins for the contents; then the real contents are rendered and must come out as they
    went in, save for white space at their edges. `spans[i]` is where turn i was written, for errors.
    Raises TurnError when the template refuses the conversation, or drops, repeats, reorders or changes a turn.
    """
    roles = [role for role, _ in turns]
    gaps = _find_gaps(tokenizer, roles, open_assistant, spans)
    trims = _find_trims(tokenizer, roles, open_assistant, gaps)
    contents = tuple(trim(content) for trim, (_, content) in zip(trims, turns, strict=True))
    if tokenizer.render(turns, open_assistant=open_assistant) != _join(gaps, contents):
        raise _changed(tokenizer, turns, open_assistant, spans, gaps, contents)
    return Rendering(gaps, contents)


def markers(tokenizer: Tokenizer, roles: Sequence[str]) -> tuple[Markers, ...]:
    """Opening and closing text of each turn in a conversation of these roles that does not open the assistant's turn.

    The text between two turns closes the first as far as the template closes it when the conversation ends there; the
    rest, or all where the template refuses that shorter conversation or ends it differently, opens the second. A
    conversation that the template writes only when another turn follows (a system turn that Llama 2 folds into the
    user's) ends in no closing text. Raises TurnError when the template refuses the conversation.
    """
    whole, gaps = _completed(tokenizer, roles)
    found = []
    opening = gaps[0]
    for i, trim in enumerate(_find_trims(tokenizer, whole, False, gaps)[: len(roles)], 1):
        close = gaps[i] if i == len(whole) else _close(tokenizer, whole[:i])
        if not gaps[i].startswith(close):
            close = ""
        found.append(Markers(opening, close, trim))
        opening = gaps[i][len(close) :]
    return tuple(found)


def fresh_part(gap: str, *, close: str | None, open: str | None, turn: str, span: Span | None = None) -> str:
    """What of the gap between two turns is not stored.

    `close` is the stored closing text of the turn before it, `open` the stored opening text of the turn behind it; None
    where it is not stored. Raises TurnError, which names `turn`, when the gap does not hold the stored text where it
    must: the prompt's turns make the template write something else than what was laid out with the schema.
    """
    fits = gap.startswith(close or "") and gap[len(close or "") :].endswith(open or "")
    fresh = gap[len(close or "") : len(gap) - len(open or "")] if fits else ""
    if not fits or (fresh and close is not None and open is not None):
        expected = (close or "") + ("" if close is not None and open is not None else "...") + (open or "")
        raise TurnError(
            f"the prompt's turns change what was laid out at {turn}: expected {expected!r}, found {gap!r}",
            hint="the template adds or drops a default system turn, numbers turns or looks at the last one: put this "
            "turn and its neighbours all into the schema, or all into the prompt",
            span=span,
        )
    return fresh


def _stand_in(index: int) -> str:
    # Small letters and digits only: no filter that a template may use on contents changes them.
    return f"zq{index}turnqz"


def _join(gaps: Sequence[str], contents: Sequence[str]) -> str:
    return "".join(gap + content for gap, content in zip(gaps, (*contents, ""), strict=True))


def _cut(rendered: str, count: int) -> tuple[str, ...]:
    """The text before each stand-in, and behind the last."""
    texts = []
    for i in range(count):
        text, _, rendered = rendered.partition(_stand_in(i))
        texts.append(text)
    return (*texts, rendered)


def _find_gaps(
    tokenizer: Tokenizer, roles: Sequence[str], open_assistant: bool, spans: Sequence[Span | None]
) -> tuple[str, ...]:
    stand_ins = [_stand_in(i) for i in range(len(roles))]
    rendered = tokenizer.render(list(zip(roles, stand_ins, strict=True)), open_assistant=open_assistant)
    places = [rendered.find(stand_in) for stand_in in stand_ins]
    for i, (place, stand_in) in enumerate(zip(places, stand_ins, strict=True)):
        if rendered.count(stand_in) == 1 and place == max(places[: i + 1]):
            continue
        what = "leaves out" if place < 0 else "changes the order of" if rendered.count(stand_in) == 1 else "repeats"
        raise TurnError(
            f"the model's chat template {what} {_name(i, roles)}",
            hint="take that turn out, or move its text into a turn that the template writes",
            span=_span(spans, i),
        )
    return _cut(rendered, len(roles))


# What may stay of a line break and a space inside it, and the characters that were dropped then.
_LEFT: dict[str, str | None] = {"\n ": "", " ": "\n", "": None}
_RIGHT: dict[str, str | None] = {" \n": "", " ": "\n", "": None}


def _find_trims(tokenizer: Tokenizer, roles: Sequence[str], open_assistant: bool, gaps: Sequence[str]) -> list[Trim]:
    """What the template does to the edges of each content, found with white space on one side of the stand-ins."""

    def texts(before: str, behind: str) -> tuple[str, ...]:
        turns = [(role, before + _stand_in(i) + behind) for i, role in enumerate(roles)]
        return _cut(tokenizer.render(turns, open_assistant=open_assistant), len(roles))

    lefts = [
        next((dropped for kept, dropped in _LEFT.items() if text == gap + kept), "")
        for gap, text in zip(gaps, texts("\n ", ""), strict=True)
    ]
    rights = [
        next((dropped for kept, dropped in _RIGHT.items() if text == kept + gap), "")
        for gap, text in zip(gaps, texts("", " \n"), strict=True)
    ]
    return [Trim(left, right) for left, right in zip(lefts[:-1], rights[1:], strict=True)]


def _completed(tokenizer: Tokenizer, roles: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The roles, with one more behind them where the template needs it to write them all; and the gaps."""
    refusal: TurnError | None = None
    for more in ((), ("user",), ("assistant",)):
        whole = (*roles, *more)
        try:
            return whole, _find_gaps(tokenizer, whole, False, ())
        except TurnError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _close(tokenizer: Tokenizer, roles: Sequence[str]) -> str:
    try:
        return _find_gaps(tokenizer, roles, False, ())[-1]
    except TurnError:
        return ""


def _changed(
    tokenizer: Tokenizer,
    turns: Turns,
    open_assistant: bool,
    spans: Sequence[Span | None],
    gaps: Sequence[str],
    contents: Sequence[str],
) -> TurnError:
    """The error for contents that the template changes: the turn is found by giving one real content at a time."""
    roles = [role for role, _ in turns]
    for i, (role, content) in enumerate(turns):
        trial = [(other, _stand_in(n)) for n, other in enumerate(roles)]
        expected = [_stand_in(n) for n in range(len(roles))]
        trial[i] = (role, content)
        expected[i] = contents[i]
        if tokenizer.render(trial, open_assistant=open_assistant) != _join(gaps, expected):
            return TurnError(
                f"the model's chat template changes the content of {_name(i, roles)}",
                hint="it drops, replaces or reacts to a part of the text (a thinking block, a marker, an empty text, "
                "white space at an edge): take that part out",
                span=_span(spans, i),
            )
    return TurnError(
        f"the model's chat template writes something else around these contents ({', '.join(roles)})",
        hint="it reacts to the contents of several turns together: shorten or change them",
        span=_span(spans, 0),
    )


def _name(index: int, roles: Sequence[str]) -> str:
    return f"turn {index + 1} ({roles[index]})"


def _span(spans: Sequence[Span | None], index: int) -> Span | None:
    return spans[index] if index < len(spans) else None
