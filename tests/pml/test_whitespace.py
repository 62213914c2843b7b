"""Each white-space rule of PML, on runs and on whole documents."""

from __future__ import annotations

import pytest

from promptcache.pml import Module, Node, Parameter, Text, Turn, Union, parse_prompt, parse_schema
from promptcache.pml.whitespace import Kind, clean_edges, clean_runs, dedent

PARAMETER, MODULE, TURN, SCAFFOLD = Kind.PARAMETER, Kind.MODULE, Kind.TURN, Kind.SCAFFOLD


def show(nodes: tuple[Node, ...]) -> list[object]:
    """Nodes as plain values: text as str, a parameter as `<name>` or ` <name>`, the others as [name, ...]."""
    shown: list[object] = []
    for node in nodes:
        if isinstance(node, Text):
            shown.append(node.text)
        elif isinstance(node, Parameter):
            shown.append(" " * node.space + f"<{node.name}>")
        elif isinstance(node, Module):
            shown.append([node.name, *show(node.children)])
        elif isinstance(node, Turn):
            shown.append([node.role, *show(node.children)])
        else:
            assert isinstance(node, Union)
            shown.append(["|", *show(node.members)])
    return shown


def schema(body: str) -> list[object]:
    return show(parse_schema(f'<schema name="s">{body}</schema>').children)


def module(body: str) -> list[object]:
    """The children of a module whose content is `body`."""
    [shown] = schema(f'<module name="m">{body}</module>')
    assert isinstance(shown, list)
    return shown[1:]


P = '<parameter name="p" length="5"/>'
Q = '<parameter name="q" length="5"/>'


# Rule 1: dedent.


@pytest.mark.parametrize(
    ("runs", "kinds", "expected"),
    [
        (["\n    a\n      b\n    c\n  "], [], ["\na\n  b\nc\n"]),
        (["first\n    a\n      b"], [], ["first\na\n  b"]),
        (["\n\ta\n\t\tb"], [], ["\na\n\tb"]),
        (["\n\ta\n    b"], [], ["\n\ta\n    b"]),
        (["\n \ta\n  b"], [], ["\n\ta\n b"]),
        (["\n    a\n\n      \n  \n    b"], [], ["\na\n\n  \n\nb"]),
        (["\n    a ", "\n    b", " c\n    d"], [MODULE, MODULE], ["\na ", "\nb", " c\nd"]),
        (["\n      a\n    ", "\n      b"], [MODULE], ["\na\n", "\nb"]),
        (["\n      a\n    ", "\n      b"], [PARAMETER], ["\n  a\n", "\n  b"]),
        (["\n  ", "\n    a"], [PARAMETER], ["\n", "\n  a"]),
        (["\n  ", "\n    a"], [TURN], ["\n", "\na"]),
        (["", ""], [MODULE], ["", ""]),
        ([""], [], [""]),
        (["   "], [], ["   "]),
        (["\n   "], [], ["\n   "]),
        (["\n a\n\u00a0b"], [], ["\n a\n\u00a0b"]),
    ],
)
def test_dedent(runs: list[str], kinds: list[Kind], expected: list[str]) -> None:
    assert dedent(runs, kinds) == expected


def test_dedent_counts_the_first_line_of_a_file() -> None:
    assert dedent(["    a\n      b\n"], [], begins_line=True) == ["a\n  b\n"]
    assert dedent(["a\n    b\n"], [], begins_line=True) == ["a\n    b\n"]


def test_code_keeps_its_shape() -> None:
    assert module(
        """
        def f(x):
            if x < 1 and x > 2:

                return x
        """.replace("<", "&lt;")
    ) == ["def f(x):\n    if x < 1 and x > 2:\n\n        return x"]


def test_code_keeps_its_shape_around_a_parameter() -> None:
    assert module(
        f"""
        def f():
            x = {P}
            return x

            {Q}
        """
    ) == ["def f():\n    x =", " <p>", "\n    return x\n   ", " <q>"]


def test_code_keeps_its_shape_around_a_nested_module() -> None:
    assert module(
        """
        class A:
            <module name="init">
            def __init__(self):
                pass
            </module>
            def g(self):
                pass
        """
    ) == ["class A:\n", ["init", "def __init__(self):\n    pass\n"], "    def g(self):\n        pass"]


def test_each_element_is_dedented_on_its_own() -> None:
    assert module('\n  a\n  <module name="n">\n        b\n          c\n  </module>\n  d\n') == [
        "a\n",
        ["n", "b\n  c\n"],
        "d",
    ]


def test_a_child_tag_does_not_hold_back_the_text_around_it() -> None:
    assert schema('\n      a\n      b\n  <module name="m">c</module>\n') == ["a\nb\n", ["m", "c"]]


def test_yaml_and_tabs() -> None:
    assert module("\n\tlist:\n\t  - a\n\t  - b\n\tend: 1\n") == ["list:\n  - a\n  - b\nend: 1"]


# Rule 2: edges.


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("a", "a"),
        ("  a\t ", " a "),
        ("\n\n  a \n \n ", "\n  a\n"),
        (" \n\n a", "\n a"),
        ("a  b\n\n\n c", "a  b\n\n\n c"),
        ("   ", " "),
        ("\t", " "),
        (" \n \n ", "\n"),
        ("", ""),
        ("\r", " "),
        ("\u00a0a\u2003", "\u00a0a\u2003"),
    ],
)
def test_edges(run: str, expected: str) -> None:
    assert clean_edges(run) == expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [("a\n\n    ", "a\n    "), ("\n  ", "\n  "), ("a   ", "a "), (" \n\n\t", "\n\t"), ("a\n", "a\n")],
)
def test_edges_before_a_parameter_keep_what_is_left_of_the_indentation(run: str, expected: str) -> None:
    assert clean_edges(run, before_parameter=True) == expected


def test_edges_in_a_document() -> None:
    assert module(f"\n  The days:\n\n  {P}\n\n  are {Q}  long.\n") == ["The days:\n", "<p>", "\nare", " <q>", " long."]


# Rule 3: what is dropped.


@pytest.mark.parametrize(
    ("runs", "kinds", "expected"),
    [
        (["  a "], [], ["a"]),
        ([" \n", "\n "], [MODULE], ["", ""]),
        (["  ", "  "], [PARAMETER], ["", ""]),
        (["a ", " ", " b"], [MODULE, MODULE], ["a ", " ", " b"]),
        (["a", "\n", "\n", "b"], [MODULE, TURN, MODULE], ["a", "", "", "b"]),
        (["a\n", "\n b"], [TURN], ["a\n", "\nb"]),
        (["a", "\n", "\n", "b"], [MODULE, SCAFFOLD, MODULE], ["a", "", "", "b"]),
        (["a\n", "\n", "\n"], [SCAFFOLD, SCAFFOLD], ["a", "", ""]),
        ([" ", "\na\n", " "], [SCAFFOLD, SCAFFOLD], ["", "a", ""]),
    ],
)
def test_dropped(runs: list[str], kinds: list[Kind], expected: list[str]) -> None:
    assert clean_runs(runs, kinds) == expected


def test_blank_runs_of_a_prompt_are_dropped() -> None:
    assert clean_runs(["\n", " ", "\n", "\n"], [MODULE, MODULE, TURN], drop_blank=True) == ["", "", "", ""]


def test_every_element_is_trimmed() -> None:
    assert schema("\n<system> a\n </system>\n<user>\n\tb </user> <assistant> </assistant>\n") == [
        ["system", "a"],
        ["user", "b"],
        ["assistant"],
    ]
    assert schema('<union>\n <module name="a"> a </module> <module name="b">\n</module>\n</union>') == [
        ["|", ["a", "a"], ["b"]]
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n", "\n   \n", "<!-- c -->", " <?p i?> "])
def test_an_empty_module_has_no_text(blank: str) -> None:
    assert module(blank) == []


# Rule 4: line breaks and spaces that join a neighbour.


def test_a_line_break_alone_joins_the_module_before_it() -> None:
    assert schema('<module name="a">A</module>\n\n<module name="b">B</module>\n') == [["a", "A\n"], ["b", "B"]]


def test_a_line_break_that_opens_the_text_joins_the_module_before_it() -> None:
    assert schema('<module name="a">A</module>\n  text') == [["a", "A\n"], "text"]
    assert schema('<module name="a">A</module> text') == [["a", "A"], " text"]


def test_a_line_break_joins_each_member() -> None:
    assert schema(
        """<union>
             <module name="a">A</module>
             <module name="b">
             </module>
             <union><module name="c">C</module><module name="d" xml:space="preserve">D\n</module></union>
           </union>
           text"""
    ) == [["|", ["a", "A\n"], ["b"], ["|", ["c", "C\n"], ["d", "D\n"]]], "text"]


def test_a_line_break_is_handed_on_to_the_nested_module_at_the_end() -> None:
    assert schema('<module name="a">A <module name="b">B</module></module>\ntext') == [
        ["a", "A ", ["b", "B\n"]],
        "text",
    ]
    assert schema('<module name="a">A<union><module name="b">B</module></union></module>\ntext') == [
        ["a", "A", ["|", ["b", "B\n"]]],
        "text",
    ]


def test_a_line_break_behind_a_final_parameter_is_a_segment_of_the_module() -> None:
    assert schema(f'<module name="a">A {P}</module>\ntext') == [["a", "A", " <p>", "\n"], "text"]


def test_an_empty_module_and_one_that_ends_in_a_line_break_get_none() -> None:
    assert schema('<module name="a"/>\ntext') == [["a"], "text"]
    assert schema('<module name="a" xml:space="preserve">A\n</module>\ntext') == [["a", "A\n"], "text"]
    assert schema('<module name="a">A<module name="b"/></module>\ntext') == [["a", "A", ["b"]], "text"]


def test_a_module_that_ends_in_a_turn_gets_no_line_break() -> None:
    assert schema('<module name="a"><user>A</user></module>\n<module name="b">B</module>') == [
        ["a", ["user", "A"]],
        ["b", "B"],
    ]


def test_a_line_break_behind_a_parameter_stays() -> None:
    assert module(f'a {P}\n<module name="n">b</module>') == ["a", " <p>", "\n", ["n", "b"]]


def test_a_space_joins_what_is_behind_it() -> None:
    a, b = '<module name="a">A</module>', '<module name="b">B</module>'
    assert schema(f"{a} {b}") == [["a", "A"], ["b", " B"]]
    assert schema(f"{a}\t{b}") == [["a", "A"], ["b", " B"]]
    assert schema(f"{a} <union>{b}<module name='c'/></union>") == [["a", "A"], ["|", ["b", " B"], ["c"]]]
    assert module(f"{P} {a}") == ["<p>", ["a", " A"]]
    assert module(f"{P} <module name='a'>{Q}</module>") == ["<p>", ["a", " <q>"]]
    assert module(f"{P} <module name='a'>{b}</module>") == ["<p>", ["a", ["b", " B"]]]
    assert module(f"{P} {Q}") == ["<p>", " <q>"]
    assert module(f"{a} {P}") == [["a", "A"], " <p>"]


def test_a_space_that_is_part_of_a_text_stays_there() -> None:
    assert schema('I live in <module name="a">A</module> now') == ["I live in ", ["a", "A"], " now"]


# The space before a parameter.


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"for {P} days", ["for", " <p>", " days"]),
        (f"for  {P}", ["for", " <p>"]),
        (f"for{P}", ["for", "<p>"]),
        (f"for\n{P}", ["for\n", "<p>"]),
        (f"<!-- c --> {P}", ["<p>"]),
        (f"a\n  b\n   {P}", ["a\nb\n", " <p>"]),
        (f"{P}{Q}", ["<p>", "<q>"]),
        (f"for&#32;{P}", ["for", " <p>"]),
    ],
)
def test_one_space_before_a_parameter_is_its_own(body: str, expected: list[object]) -> None:
    assert module(body) == expected


# xml:space="preserve".


def test_preserved_text_is_exact() -> None:
    body = "  \n\t a \n\n  b  \n"
    [shown] = schema(f'<module name="m" xml:space="preserve">{body}</module>')
    assert shown == ["m", body]


def test_preserve_is_inherited_and_ends_with_default() -> None:
    assert schema('<module name="m" xml:space="preserve"> <module name="n"> a </module> </module>') == [
        ["m", " ", ["n", " a "], " "]
    ]
    assert schema(
        '<module name="m" xml:space="preserve"> <module name="n" xml:space="default"> a </module> </module>'
    ) == [["m", " ", ["n", "a"], " "]]


def test_preserved_runs_hand_nothing_over() -> None:
    text = (
        '<schema name="s" xml:space="preserve"><module name="a">A</module>\n<module name="b">B</module> text</schema>'
    )
    assert show(parse_schema(text).children) == [["a", "A"], "\n", ["b", "B"], " text"]


def test_preserve_lets_a_union_be_written_on_several_lines() -> None:
    text = '<schema name="s" xml:space="preserve"><union>\n  <module name="a"> A </module>\n</union></schema>'
    assert show(parse_schema(text).children) == [["|", ["a", " A "]]]


def test_preserve_keeps_the_space_before_a_parameter_its_own() -> None:
    assert schema(f'<module name="m" xml:space="preserve">a  {P} </module>') == [["m", "a ", " <p>", " "]]


# Prompts.


def prompt(body: str) -> list[object]:
    parsed = parse_prompt(f'<prompt schema="s">{body}</prompt>')
    items: list[object] = [getattr(item, "text", None) or f"<{getattr(item, 'name', '')}>" for item in parsed.items]
    return items + [[turn.role, turn.text] for turn in parsed.turns]


def test_white_space_of_a_prompt() -> None:
    assert prompt("\n  <a/>\n  <b/> <c/>\n") == ["<a>", "<b>", "<c>"]
    assert prompt("\n  First\n  <a/>\n  then\n    this\n  <b/> and that\n") == [
        "First\n",
        "<a>",
        "\nthen\n  this\n",
        "<b>",
        " and that",
    ]
    assert prompt("<a/>\n <user>\n  Hello\n   there\n </user>\n <assistant/>\n") == [
        "<a>",
        ["user", "Hello\n there"],
        ["assistant", ""],
    ]


def test_a_preserved_prompt_is_exact() -> None:
    parsed = parse_prompt('<prompt schema="s" xml:space="preserve"> \n<a/>\n <user> hi\n</user>\n</prompt>')
    assert [getattr(item, "text", None) for item in parsed.items] == [" \n", None, "\n "]
    assert [turn.text for turn in parsed.turns] == [" hi\n"]
    assert parsed.exact
