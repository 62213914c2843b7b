"""Reuse equals the oracle on random schemas and prompts, laid out by a second, simpler layout of this file.

Texts hold no white space and no turns, so that one short walk gives every position of the reserved layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from promptcache import PromptCache
from tests.engine.comparison import byte_engine, distance, expect
from tests.oracle import FRESH, Token, tokens
from tests.tiny import UNK


@dataclass(frozen=True)
class Part:
    """A piece of a schema: its XML, the import (or the arguments) that a prompt writes for it, and the positions it
    takes. `used` are those of what is imported, a union's member where that is shorter than its union."""

    xml: str
    use: str
    length: int
    used: int


@dataclass
class Draw:
    """A random schema and prompt, written as XML while the prompt's tokens are placed.

    In every method `chosen` says that the prompt imports what is drawn.
    """

    random: Random
    names: int = 0
    tokens: list[Token] = field(default_factory=list)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def word(self, most: int = 4) -> str:
        return "".join(self.random.choices("abcdefgh", k=self.random.randint(0, most)))

    def name(self) -> str:
        self.names += 1
        return f"n{self.names}"

    def text(self, start: int, group: str, chosen: bool) -> Part:
        word = self.word()
        if chosen:
            self.tokens += tokens(word.encode(), start, group)
        return Part(word, "", len(word), len(word))

    def parameter(self, start: int, group: str, chosen: bool) -> Part:
        name, length = self.name(), self.random.randint(1, 4)
        scaffold = self.word(length)
        if chosen and group != FRESH:
            ids = [*scaffold.encode(), *[UNK] * (length - len(scaffold))]
            self.tokens += tokens(ids, start, group, ghost=True)
        argument = ""
        if self.maybe(0.6):
            value = self.word(length)
            argument = f' {name}="{value}"'
            if chosen:
                self.tokens += tokens(value.encode(), start)
        xml = f'<parameter name="{name}" length="{length}" scaffold="{scaffold}"/>'
        return Part(xml, argument, length, length)

    def module(self, start: int, depth: int, chosen: bool) -> Part:
        name = self.name()
        cached = self.maybe(0.8)
        group, at, xml, arguments, imports = name if cached else FRESH, start, "", "", ""
        for _ in range(self.random.randint(0, 4)):
            kind = self.random.choice("ttpmu" if depth < 3 else "tp")
            if kind == "t":
                part = self.text(at, group, chosen)
            elif kind == "p":
                part = self.parameter(at, group, chosen)
                arguments += part.use
            else:
                part = self.nested(kind, at, depth + 1, chosen)
                imports += part.use
            xml, at = xml + part.xml, at + part.length
        kept = "" if cached else ' cache="false"'
        use = f"<{name}{arguments}>{imports}</{name}>"
        return Part(f'<module name="{name}"{kept}>{xml}</module>', use, at - start, at - start)

    def nested(self, kind: str, start: int, depth: int, around: bool) -> Part:
        """A module or a union (`kind` m or u) that the prompt may import or not, if it has what is around it."""
        count = 1 if kind == "m" else self.random.randint(1, 3)
        pick = self.random.randint(0, count - 1) if around and self.maybe(0.7) else None
        members = [self.module(start, depth, n == pick) for n in range(count)]
        xml = "".join(member.xml for member in members)
        if kind == "u":
            xml = f"<union>{xml}</union>"
        length = max(member.length for member in members)
        return Part(xml, "", length, 0) if pick is None else Part(xml, members[pick].use, length, members[pick].used)

    def new_text(self, first: int, end: int) -> str:
        """Text in the first long enough run of free positions of [first, end), or none where there is no such run."""
        word = self.word()
        taken = {t.position for t in self.tokens if not t.ghost}
        for start in range(first, end - len(word) + 1):
            if not taken & set(range(start, start + len(word))):
                self.tokens += tokens(word.encode(), start)
                return word
        return ""

    def request(self) -> tuple[str, str]:
        """The whole schema and prompt."""
        at, xml, imports = 0, "", []
        for _ in range(self.random.randint(1, 6)):
            kind = self.random.choice("tmmu")
            part = self.text(at, "text", True) if kind == "t" else self.nested(kind, at, 1, True)
            if part.use:
                imports.append((part.use, at, at + part.used))
            xml, at = xml + part.xml, at + part.length
        assume(at < 400)  # the model has 512 positions
        pieces = [use for use, _, _ in imports]
        if self.maybe(0.5):
            before = 0
            for n, (use, start, end) in enumerate(imports):
                pieces[n] = self.new_text(before, start) + use
                before = end
        else:
            self.random.shuffle(pieces)
        real = [t for t in self.tokens if not t.ghost]
        last = max(real, key=lambda t: t.position, default=None)
        ask = "?" if last is None or self.maybe(0.7) else ""
        self.tokens += tokens(ask.encode(), last.position + 1 if last else 0)
        if last and not ask:
            # nothing follows it: it is computed again
            self.tokens[self.tokens.index(last)] = Token(last.id, last.position)
        return f'<schema name="s">{xml}</schema>', f'<prompt schema="s">{"".join(pieces)}{ask}</prompt>'


def is_exact(given: list[Token]) -> bool:
    """Whether all that is stored saw just the ids and positions that stand below it in the request."""
    real = [t for t in given if not t.ghost]

    def below(seen: list[Token], position: int) -> set[tuple[int, int]]:
        return {(t.id, t.position) for t in seen if t.position < position}

    stored = [t for t in real if t.group != FRESH]
    return all(below([k for k in given if k.group == t.group], t.position) == below(real, t.position) for t in stored)


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    return byte_engine()


def check(engine: PromptCache, random: Random) -> None:
    draw = Draw(random)
    schema, prompt = draw.request()
    engine.load_schema(schema, replace=True)
    plan = engine.plan(prompt)
    real = sorted((t for t in draw.tokens if not t.ghost), key=lambda t: t.position)
    assert list(plan.token_ids) == [t.id for t in real], (schema, prompt)
    assert list(plan.position_ids) == [t.position for t in real], (schema, prompt)
    expected, limit = expect(engine.model, draw.tokens)
    assert distance(engine.logits(prompt), expected) < limit, (schema, prompt)
    assert plan.exact is is_exact(draw.tokens), (schema, prompt)


unhurried = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@settings(unhurried, max_examples=60)
@given(random=st.randoms(use_true_random=False))
def test_random_requests(engine, random):
    check(engine, random)


@pytest.mark.slow
@settings(unhurried, max_examples=20_000)
@given(random=st.randoms(use_true_random=False))
def test_many_random_requests(engine, random):
    check(engine, random)
