"""A conversation rendered as a whole, and what the template writes around each turn's content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from promptcache.errors import TurnError
from promptcache.layout.tokenizer import Tokenizer
from promptcache.source import Span

Turns = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Rendering:
    """`gaps[i]` is what the template writes before turn i's content; `gaps[-1]` what it writes behind the last.

    `contents` are the turns' contents as the template writes them. `strips` says that it drops white space at the edges
    of contents (at some edge of some turn: `contents` has the truth).
    """

    gaps: tuple[str, ...]
    strips: bool
    contents: tuple[str, ...]


@dataclass(frozen=True)
class Markers:
    """What the template writes to open and to close one turn in one conversation."""

    open: str
    close: str


def render(tokenizer: Tokenizer, turns: Turns, *, open_assistant: bool, spans: Sequence[Span | None] = ()) -> Rendering:
    """The conversation (role, content) as the model's template writes it.

    The gaps are found with stand-ins for the contents; then the real contents are rendered and must come out as they
    went in, save for white space at their edges. `spans[i]` is where turn i was written, for errors.
    Raises TurnError when the template refuses the conversation, or drops, repeats, reorders or changes a turn.
    """
    roles = [role for role, _ in turns]
    gaps = _find_gaps(tokenizer, roles, open_assistant, spans)
    edges = _find_edges(tokenizer, roles, open_assistant, gaps)
    contents = tuple(edge(content) for edge, (_, content) in zip(edges, turns, strict=True))
    if tokenizer.render(turns, open_assistant=open_assistant) != _join(gaps, contents):
        raise _changed(tokenizer, turns, open_assistant, spans, gaps, contents)
    return Rendering(gaps, strips=any(edge is not _keep for edge in edges), contents=contents)


def markers(tokenizer: Tokenizer, roles: Sequence[str]) -> tuple[Markers, ...]:
    """Opening and closing text of each turn in a conversation of these roles that does not open the assistant's turn.

    The text between two turns closes the first as far as the template closes it when the conversation ends there; the
    rest, or all where the template refuses that shorter conversation or ends it differently, opens the second.
    """
    gaps = _find_gaps(tokenizer, roles, False, ())
    found = []
    opening = gaps[0]
    for i in range(1, len(roles)):
        close = _close(tokenizer, roles[:i])
        if not gaps[i].startswith(close):
            close = ""
        found.append(Markers(opening, close))
        opening = gaps[i][len(close) :]
    return (*found, Markers(opening, gaps[-1])) if roles else ()


def fresh_part(gap: str, *, close: str | None, open: str | None, turn: str) -> str:
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
        )
    return fresh


def _stand_in(index: int) -> str:
    # Small letters and digits only: no filter that a template may use on contents changes them.
    return f"zq{index}turnqz"


def _join(gaps: Sequence[str], contents: Sequence[str]) -> str:
    return "".join(gap + content for gap, content in zip(gaps, (*contents, ""), strict=True))


def _find_gaps(
    tokenizer: Tokenizer, roles: Sequence[str], open_assistant: bool, spans: Sequence[Span | None]
) -> tuple[str, ...]:
    rest = tokenizer.render([(role, _stand_in(i)) for i, role in enumerate(roles)], open_assistant=open_assistant)
    counts = [rest.count(_stand_in(i)) for i in range(len(roles))]
    gaps = []
    for i in range(len(roles)):
        gap, found, rest = rest.partition(_stand_in(i))
        if counts[i] != 1 or not found:
            what = "leaves out" if counts[i] == 0 else "repeats" if counts[i] > 1 else "changes the order of"
            raise TurnError(
                f"the model's chat template {what} {_name(i, roles)}",
                hint="take that turn out, or move its text into a turn that the template writes",
                span=_span(spans, i),
            )
        gaps.append(gap)
    return (*gaps, rest)


def _keep(content: str) -> str:
    return content


@dataclass(frozen=True)
class _Trim:
    """White space that a template drops: `left` and `right` are the characters, None for all white space."""

    left: str | None
    right: str | None

    def __call__(self, content: str) -> str:
        return content.lstrip(self.left).rstrip(self.right)


# What stays of the white space around a stand-in, and the characters that were dropped then. Form feed and vertical
# tab stand in no template; the line break outside them finds templates that drop line breaks only.
_LEFT: dict[str, str | None] = {"\n\f": "", "\f": "\n", "": None}
_RIGHT: dict[str, str | None] = {"\v\n": "", "\v": "\n", "": None}


def _find_edges(
    tokenizer: Tokenizer, roles: Sequence[str], open_assistant: bool, gaps: Sequence[str]
) -> list[Callable[[str], str]]:
    """What the template does to the edges of each content, found with stand-ins that have white space around them."""
    padded = [(role, f"\n\f{_stand_in(i)}\v\n") for i, role in enumerate(roles)]
    rest = tokenizer.render(padded, open_assistant=open_assistant)
    lefts, rights = [], []
    for i, gap in enumerate(gaps):
        between, _, rest = rest.partition(_stand_in(i)) if i < len(roles) else (rest, "", "")
        # The first gap has no turn before it, the last none behind it.
        fits = [
            (right, left)
            for right in (_RIGHT if i else [""])
            for left in (_LEFT if i < len(roles) else [""])
            if between == right + gap + left
        ]
        right, left = fits[0] if fits else ("\v\n", "\n\f")
        rights.append(_RIGHT[right])
        lefts.append(_LEFT[left])
    trims = [_Trim(left, right) for left, right in zip(lefts[:-1], rights[1:], strict=True)]
    return [_keep if trim == _Trim("", "") else trim for trim in trims]


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
