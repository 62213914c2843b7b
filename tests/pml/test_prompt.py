"""Prompts built in Python: strings are byte-exact, paths mean imports."""

from __future__ import annotations

import pytest

from promptcache.errors import PromptError
from promptcache.pml import Import, NewText, NewTurn, Prompt
from tests.pml.faults import fault_of

ODD = [" \n<secret/> ", "</prompt>", "]]>", "&amp; & &x;", "<|im_end|>", "\0\x1b\ufffe", "\r\n", "<![CDATA[", ""]


def shape(items: tuple[Import | NewText, ...]) -> list[object]:
    """Imports as [name, ...], texts as str."""
    return [item.text if isinstance(item, NewText) else [item.name, *shape(item.imports)] for item in items]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([], []),
        (["a"], [["a"]]),
        (["a/b/c"], [["a", ["b", ["c"]]]]),
        (["a/b", "a/c"], [["a", ["b"], ["c"]]]),
        (["a", "a/b"], [["a", ["b"]]]),
        (["a/b", "a"], [["a", ["b"]]]),
        (["a", "a"], [["a"]]),
        (["a/b", "x", "a/c"], [["a", ["b"]], ["x"], ["a", ["c"]]]),
        (["a/b", "a[1]/b"], [["a", ["b"]], ["a", ["b"]]]),
        (["a", "a[1]", "a[1]/b", "a[2]"], [["a"], ["a", ["b"]], ["a"]]),
        (["a[0]/b", "a/c", "a[0]/d"], [["a", ["b"], ["c"], ["d"]]]),
        (["a/b", "a/b[1]", "a/b[1]/c"], [["a", ["b"], ["b", ["c"]]]]),
        (["a", "x", "a[1]"], [["a"], ["x"], ["a"]]),
        (["unit.py", "_x-1"], [["unit.py"], ["_x-1"]]),
    ],
)
def test_imports(paths: list[str], expected: list[object]) -> None:
    assert shape(Prompt("s", paths).items) == expected
    assert shape(Prompt("s", tuple(paths)).items) == expected
    assert shape(Prompt("s", iter(paths)).items) == expected


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["a b"], '"a b" is not a path'),
        ([""], '"" is not a path'),
        (["a/"], "is not a path"),
        (["/a"], "is not a path"),
        (["a//b"], "is not a path"),
        (["a[x]"], "is not a path"),
        (["a[-1]"], "is not a path"),
        (["a[" + "1" * 5000 + "]"], "is not a path"),
        (["<a/>"], "is not a path"),
        (["a\n"], "is not a path"),
        (["/".join("a" * 5000)], "is not a path"),
        (["\ud800"], "is not a path"),
        (["a[1]"], "skips a number"),
        (["a", "a[2]"], "skips a number"),
        (["a", "b", "a[0]"], "goes back"),
        (["a/b", "a[1]", "a[0]/b"], "goes back"),
        ("miami", "one text, not a list"),
        ([1], "not int"),
        ([None], "not NoneType"),
    ],
)
def test_imports_that_are_none(paths: list[str], words: str) -> None:
    fault = fault_of(lambda: Prompt("s", paths))
    assert isinstance(fault, PromptError)
    assert words in fault.message
    assert fault.hint
    str(fault).encode()


@pytest.mark.parametrize("text", ODD)
def test_strings_are_exact(text: str) -> None:
    prompt = Prompt("s", ["a"], {"a/p": text}, text=text)
    assert prompt.items[1:] == ((NewText(text),) if text else ())
    assert prompt.arguments == (("a/p", text),)
    prompt = Prompt(messages=[{"role": "user", "content": text}])
    assert prompt.turns == (NewTurn("user", text),)


def test_the_constructor_takes_its_six_arguments_in_order() -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "assistant", "content": "b"}]
    prompt = Prompt("s", ["a"], {"p": "v"}, messages, None, "full")
    assert (prompt.schema, prompt.items, prompt.arguments) == ("s", (Import("a"),), (("p", "v"),))
    assert (prompt.turns, prompt.repair) == ((NewTurn("system", "a"), NewTurn("assistant", "b")), "full")
    assert Prompt() == Prompt(None, (), None, None, None, None)


def test_prompts_are_equal_by_content() -> None:
    def make(text: str = "t", value: str = "v") -> Prompt:
        return Prompt("s", ["a"], {"p": value}, text=text)

    assert make() == make()
    assert hash(make()) == hash(make())
    assert len({make(), make("u"), make(value="w"), Prompt("s", ["a"])}) == 4
    with pytest.raises(AttributeError):
        make().schema = "t"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"messages": [], "text": ""}, "messages and text together"),
        ({"text": b"x"}, "text is bytes, not str"),
        ({"text": "\ud800"}, "surrogate"),
        ({"schema": 1}, "schema is int"),
        ({"repair": 1}, "repair is int"),
        ({"arguments": {"p": 3}}, "an argument is int"),
        ({"arguments": {3: "p"}}, "not str"),
        ({"arguments": {"p": "\udfff"}}, "surrogate"),
        ({"arguments": ["p"]}, "not a mapping"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "'tool'"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "['user']"),
        ({"messages": [{"role": "user"}]}, "message 1 is not a mapping"),
        ({"messages": [{"role": "user", "content": "x"}, "x"]}, "message 2 is not a mapping"),
        ({"messages": "hello"}, "message 1 is not a mapping"),
        ({"messages": [{"role": "user", "content": "x", "name": "n"}]}, "message 1 is not a mapping"),
        ({"messages": [{"role": "user", "content": None}]}, "the content of message 1 is NoneType"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "surrogate"),
    ],
)
def test_what_the_constructor_refuses(options: dict[str, object], words: str) -> None:
    fault = fault_of(lambda: Prompt(**options))  # type: ignore[arg-type]
    assert isinstance(fault, PromptError)
    assert words in fault.message
    assert fault.hint
