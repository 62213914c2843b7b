"""Random schemas, written once as XML and once as a function, are equal, and all their prompts bind."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptcache.pml import bind, parse_schema
from promptcache.pml.python import SchemaFunction
from tests.pml.python.loading import load

WORDS = st.text("ab<&>{}'\"\\ é\N{EM SPACE}]", min_size=1, max_size=8).map(lambda text: f"x{text}x")
LINES = st.tuples(WORDS, st.lists(st.one_of(st.just(""), WORDS, WORDS.map(lambda w: f"  {w}")), max_size=2), WORDS).map(
    lambda parts: [parts[0], *parts[1], parts[2]]
)
TEXT = st.tuples(st.just("text"), LINES)
SLOT = st.tuples(st.just("slot"), st.tuples(st.sampled_from(["", " ", "x", "x "]), st.sampled_from(["", " x", "x"])))
FLAT = st.lists(st.one_of(TEXT, SLOT), max_size=3)
BODY = st.recursive(
    FLAT,
    lambda inner: st.lists(
        st.one_of(
            TEXT,
            SLOT,
            st.tuples(st.just("if"), inner),
            st.tuples(st.just("match"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("else"), st.lists(inner, min_size=2, max_size=3)),
        ),
        max_size=3,
    ),
    max_leaves=12,
)
TOP = st.lists(st.one_of(TEXT, st.tuples(st.just("if"), BODY), st.tuples(st.just("user"), BODY)), max_size=4)


@dataclass
class Writer:
    """Both spellings of one tree, line by line."""

    numbers: Iterator[int]
    python: list[str]
    xml: list[str]
    arguments: dict[str, list[Any]]

    def body(self, body: list[Any], depth: int, in_module: bool = True) -> None:
        pad = "    " * depth
        self.python.append(f"{pad}pass")
        for kind, value in body:
            number = next(self.numbers)
            if kind == "text":
                self.xml += [textwrap.indent(escape("\n".join(value)), pad)]
                self.python.append(f"{pad}{chr(10).join(value)!r}")
            elif kind == "slot" and in_module:
                before, after = value
                self.arguments[f"t{number}: Annotated[str, MaxTokens(3)] = None"] = ["three", None]
                self.xml.append(f'{pad}{before}<parameter name="t{number}" length="3"/>{after}')
                self.python.append(f"{pad}f'{before}{{t{number}}}{after}'")
            elif kind == "if":
                self.arguments[f"f{number}=False"] = [True, False]
                self.python.append(f"{pad}if f{number}:")
                self.module(f"f{number}", value, depth)
            elif kind == "match":
                self.arguments[f"m{number}=None"] = [None, *(f"m{number}.{i}" for i in range(len(value)))]
                self.python.append(f"{pad}match m{number}:")
                self.xml.append("<union>")
                for index, inner in enumerate(value):
                    self.python.append(f"{pad}  case 'm{number}.{index}':")
                    self.module(f"m{number}.{index}", inner, depth)
                self.xml.append("</union>")
            elif kind == "else":
                self.xml.append("<union>")
                for index, inner in enumerate(value):
                    last = index == len(value) - 1
                    name = f"e{number}_0.else" if last else f"e{number}_{index}"
                    self.python.append(f"{pad}else:" if last else f"{pad}{'el' * bool(index)}if {name}:")
                    if not last:
                        self.arguments[f"{name}=False"] = [True, False]
                    self.module(name, inner, depth)
                self.xml.append("</union>")
            elif kind == "user":
                self.python.append(f"{pad}with user():")
                self.xml.append(f"{pad}<user>")
                self.body(value, depth + 1, in_module=False)
                self.xml.append(f"{pad}</user>")

    def module(self, name: str, body: list[Any], depth: int) -> None:
        self.xml.append(f'<module name="{name}">')
        self.body(body, depth + 1)
        self.xml.append("</module>")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(TOP)
def test_both_spellings_are_equal(tmp_path_factory: pytest.TempPathFactory, tree: list[Any]) -> None:
    writer = Writer(itertools.count(), [], ['<schema name="f">'], {})
    writer.body(tree, 1, in_module=False)
    source = f"@schema\ndef f({', '.join(writer.arguments)}):\n" + "\n".join(writer.python) + "\n"
    function: SchemaFunction = load(tmp_path_factory.getbasetemp(), source).f
    assert function.schema == parse_schema("\n".join([*writer.xml, "</schema>"]))
    for values in itertools.islice(itertools.product(*writer.arguments.values()), 16):
        bind(function(*values), function.schema)
