"""The white space of string statements."""

from __future__ import annotations

from typing import Annotated

import pytest

from promptcache.pml import Module, Node, Parameter, Text, Turn, Union
from promptcache.pml.python import MaxTokens, SchemaFunction, assistant, schema, user

Days = Annotated[str, MaxTokens(3)]


def children(function: SchemaFunction) -> tuple[Node, ...]:
    return function.schema.children


def test_each_string_is_a_line_and_an_empty_one_an_empty_line() -> None:
    @schema
    def f() -> None:
        "one"
        "two "
        ""
        "three\n"
        "four is five"

    assert children(f) == (Text("one\ntwo \n\nthree\nfour is five"),)


def test_triple_quoted_strings_are_dedented_and_keep_their_shape() -> None:
    @schema
    def f() -> None:
        """
        def add(a, b):
            total = a + b

            return total
        """
        """no break before
        shared
          more
        """
        """

        last
        """

    code = "def add(a, b):\n    total = a + b\n\n    return total"
    assert children(f) == (Text(f"{code}\nno break before\nshared\n  more\nlast"),)


def test_characters_of_xml_and_escapes_are_text() -> None:
    @schema
    def f() -> None:
        r"a < b && c \n <user> ]]> {x}"
        "tab\there, \x85 and \r return"

    assert children(f) == (Text("a < b && c \\n <user> ]]> {x}\ntab\there, \x85 and \r return"),)


def test_a_parameter_stands_in_the_text() -> None:
    @schema
    def f(plan: bool, days: Days, start: Days, end: Days) -> None:
        if plan:
            f"""{start} opens.
              Then
                {days} days, {{{end}}}
            """

    assert children(f) == (
        Module(
            "plan",
            (
                Parameter("start", 3),
                Text(" opens.\nThen\n "),
                Parameter("days", 3, space=True),
                Text(" days, {"),
                Parameter("end", 3),
                Text("}"),
            ),
        ),
    )


def test_buffers_open_and_close_a_module() -> None:
    @schema
    def f(plan: bool, days: Days, end: Days) -> None:
        if plan:
            f"{days} and {end}"
        "behind"

    assert children(f) == (
        Module("plan", (Parameter("days", 3), Text(" and"), Parameter("end", 3, space=True), Text("\n"))),
        Text("behind"),
    )


def test_a_line_break_behind_a_module_comes_with_it() -> None:
    @schema
    def f(a: bool, b: bool, c: bool) -> None:
        "start"
        if a:
            "A"
            if b:
                "B"
        "middle"
        if c:
            "C"
        else:
            "D"
        "end"

    assert children(f) == (
        Text("start\n"),
        Module("a", (Text("A\n"), Module("b", (Text("B\n"),)))),
        Text("middle\n"),
        Union((Module("c", (Text("C\n"),)), Module("c.else", (Text("D\n"),)))),
        Text("end"),
    )


def test_turns_are_trimmed() -> None:
    @schema
    def f() -> None:
        with user():
            "\n question  \n"
        with assistant():
            "answer"

    assert children(f) == (Turn("user", (Text("question"),)), Turn("assistant", (Text("answer"),)))


@pytest.mark.parametrize("empty", ["pass", "..."])
def test_nothing_is_an_empty_module(empty: str) -> None:
    @schema
    def with_pass(a: bool) -> None:
        if a:
            pass

    @schema
    def with_dots(a: bool) -> None:
        if a:
            ...

    assert children({"pass": with_pass, "...": with_dots}[empty]) == (Module("a"),)
