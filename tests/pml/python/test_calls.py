"""Calling a schema function: values that do not fit are clear errors, and what is left out imports nothing."""

from __future__ import annotations

import enum
from typing import Annotated

import pytest

from promptcache.errors import RequestError
from promptcache.pml import Prompt, bind
from promptcache.pml.python import MaxTokens, assistant, schema


@schema
def f(flag: bool, by: str, /, days: Annotated[str, MaxTokens(3)], *, late: bool = False):
    if flag:
        f"{days} days"
    match by:
        case "train":
            "T"
        case "plane":
            "P"
    if late:
        "late"


WRONG = {
    "unknown": ({"lat": True}, "f() has no argument `lat`", 'did you mean "late"?'),
    "far from all": ({"zzz": True}, "f() has no argument `zzz`", "days, late"),
    "by position only": ({"flag": True}, "f() has no argument `flag`", "days, late"),
    "twice": ({"_": (True, "train", "three"), "days": "x"}, "f() is given `days` twice", None),
    "too many": ({"_": (True, "train", "three", True)}, "f() takes 3 values by position, and 4 are given", None),
    "a flag that is text": ({"_": ("yes",)}, "`flag` is a flag, not 'yes' (str)", "True or False"),
    "a flag that is a number": ({"late": 1}, "`late` is a flag, not 1 (int)", None),
    "a flag that is none": ({"late": None}, "`late` is a flag, not None", None),
    "text that is a number": ({"days": 3}, "`days` is text, not 3 (int)", "give a str"),
    "no case": ({"_": (True, "trian")}, "`by` cannot be 'trian'", 'did you mean "train"?'),
    "a case of another type": ({"_": (True, 1)}, "`by` cannot be 1", "train, plane"),
    "no constant": ({"_": (True, ["train"])}, "`by` cannot be ['train']", None),
}


@pytest.mark.parametrize("given, message, hint", WRONG.values(), ids=WRONG.keys())
def test_values_that_do_not_fit_are_errors(given: dict[str, object], message: str, hint: str | None) -> None:
    named = {key: value for key, value in given.items() if key != "_"}
    positional = given.get("_", ())
    assert isinstance(positional, tuple)
    with pytest.raises(RequestError) as caught:
        f(*positional, **named)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert (hint or "") in (caught.value.hint or "")


def test_everything_may_be_left_out() -> None:
    assert bind(f(), f.schema).items == ()
    assert bind(f(True), f.schema) == bind(Prompt(schema="f", imports=["flag"]), f.schema)
    assert bind(f(True, days=None), f.schema) == bind(f(True), f.schema)


def test_an_argument_in_a_module_that_is_not_imported_is_not_given() -> None:
    assert bind(f(False, "train", "three"), f.schema) == bind(Prompt(schema="f", imports=["train"]), f.schema)


def test_text_and_messages_of_the_end_user_come_with_the_call() -> None:
    bound = bind(f(True, text="Go <now> & there"), f.schema)
    assert bound == bind(Prompt(schema="f", imports=["flag"], text="Go <now> & there"), f.schema)
    messages = [{"role": "user", "content": "Go"}]
    assert bind(f(messages=messages), f.schema) == bind(Prompt(schema="f", messages=messages), f.schema)


@schema
def shadowing(wishes: bool, text: Annotated[str, MaxTokens(3)], messages: bool = False):
    if wishes:
        f"{text}"
    if messages:
        "M"


def test_an_argument_called_text_or_messages_is_the_functions_own() -> None:
    bound = bind(shadowing(True, text="quiet", messages=True), shadowing.schema)
    prompt = Prompt(schema="shadowing", imports=["wishes", "messages"], arguments={"wishes/text": "quiet"})
    assert bound == bind(prompt, shadowing.schema)
    assert bind(shadowing(True, "quiet"), shadowing.schema).items
    with pytest.raises(RequestError, match="`text` twice"):
        shadowing(True, "quiet", text="loud")


def test_defaults_count() -> None:
    @schema
    def g(a: bool = True, by: str = "x", days: Annotated[str, MaxTokens(3)] = "three") -> None:
        if a:
            f"{days}"
        if by == "x":
            "X"

    expected = Prompt(schema="g", imports=["a", "x"], arguments={"a/days": "three"})
    assert bind(g(), g.schema) == bind(expected, g.schema)
    assert bind(g(a=False, by=None), g.schema).items == ()


def test_the_values_of_a_choice_are_those_of_all_its_conditions() -> None:
    @schema
    def g(by: object, level: object = None) -> None:  # type: ignore[misc]
        if by == "x":
            "X"
        match by:
            case "y":
                "Y"
            case _:
                "Z"
        if level == True:  # noqa: E712
            "T"

    imports = [[found.path for found in bind(g(by), g.schema).imports()] for by in ("x", "y", "z", 7, None)]
    assert imports == [["x", "by.else"], ["y"], ["by.else"], ["by.else"], ["by.else"]]
    assert bind(g("y", True), g.schema).items[-1].path == "level-true"  # type: ignore[union-attr]
    for value in (1, "yes", False):
        with pytest.raises(RequestError, match="`level` cannot be"):
            g("y", value)
    with pytest.raises(RequestError, match="`by` cannot be"):
        g(1.5)


class Way(enum.StrEnum):
    TRAIN = "train"


class Odd:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("never compared")


def test_members_of_an_enumeration_are_their_text_and_other_objects_are_refused() -> None:
    assert bind(f(True, Way.TRAIN), f.schema) == bind(f(True, "train"), f.schema)
    with pytest.raises(RequestError, match="`by` cannot be"):
        f(True, Odd())


def test_a_helper_called_outside_says_what_it_is_for() -> None:
    with pytest.raises(RequestError, match="with assistant"):
        assistant()


@pytest.mark.parametrize("length", [0, -1, 1.5, "5", True, None])
def test_a_bound_is_a_whole_number(length: object) -> None:
    with pytest.raises(RequestError, match="at least 1"):
        MaxTokens(length)  # type: ignore[arg-type]


def test_a_scaffold_is_text() -> None:
    with pytest.raises(RequestError, match="is text"):
        MaxTokens(3, scaffold=7)  # type: ignore[arg-type]
