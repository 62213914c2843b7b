"""`if`, `match` and calls: which modules they declare, and which ones a call of the function imports."""

from __future__ import annotations

from typing import Annotated

import pytest

from promptcache.pml import Module, Prompt, Text, Union, bind
from promptcache.pml.python import MaxTokens, SchemaFunction, schema


def names(function: SchemaFunction) -> list[str]:
    return [path for path, _ in function.schema.walk_modules()]


def imported(function: SchemaFunction, prompt: Prompt) -> list[str]:
    return [found.path for found in bind(prompt, function.schema).imports()]


def arguments(function: SchemaFunction, prompt: Prompt) -> dict[str, str]:
    bound = bind(prompt, function.schema)
    return {f"{found.path}/{name}": text for found in bound.imports() for name, text in found.arguments}


@schema
def chain(a: bool = False, by: str | int | None = None):
    if a:
        "A"
    elif by == "train":
        "T"
    elif by == 7:
        "7"
    else:
        "E"
    if by == "late":
        "L"


def test_a_chain_takes_the_first_condition_that_holds() -> None:
    assert chain.schema.children == (
        Union(
            (
                Module("a", (Text("A\n"),)),
                Module("train", (Text("T\n"),)),
                Module("by-7", (Text("7\n"),)),
                Module("a.else", (Text("E\n"),)),
            )
        ),
        Module("late", (Text("L"),)),
    )
    assert imported(chain, chain(a=True, by="train")) == ["a"]
    assert imported(chain, chain(by="train")) == ["train"]
    assert imported(chain, chain(by=7)) == ["by-7"]
    assert imported(chain, chain(by="late")) == ["a.else", "late"]
    assert imported(chain, chain()) == ["a.else"]


@schema
def cases(by, other=None):
    match by:
        case "train" | "rail":
            "T"
        case True:
            "yes"
        case 1:
            "one"
        case None:
            "none"
        case _:
            "rest"
    match other:
        case "x":
            "X"


def test_match_takes_the_first_case_that_holds() -> None:
    assert names(cases) == ["train", "by-true", "by-1", "by-none", "by.else", "x"]
    assert imported(cases, cases("train")) == imported(cases, cases("rail")) == ["train"]
    assert imported(cases, cases(True)) == ["by-true"]
    assert imported(cases, cases(1)) == ["by-1"]
    assert imported(cases, cases()) == imported(cases, cases(None)) == ["by-none"]
    assert imported(cases, cases("boat", "x")) == ["by.else", "x"]


def test_no_value_chooses_two_cases() -> None:
    union = cases.schema.children[0]
    assert isinstance(union, Union)
    members = {module.name for module in union.modules()}
    for value in ("train", "rail", True, 1, None, "boat", 0, False):
        assert len(members & set(imported(cases, cases(value)))) == 1


def test_an_if_inside_else_is_no_elif() -> None:
    @schema
    def f(a: bool = False, b: bool = False) -> None:
        if a:
            "A"
        else:
            if b:
                "B"

    assert names(f) == ["a", "a.else", "a.else/b"]
    assert imported(f, f(b=True)) == ["a.else", "a.else/b"]
    assert imported(f, f()) == ["a.else"]


@schema(name="beaches")
def all_beaches(sunny: bool = True, where: str = "south", length: Annotated[str | None, MaxTokens(4)] = "long"):
    f"Beaches that are {length}."  # noqa: B021
    if sunny:
        "Sun."
    match where:
        case "south":
            "South."
        case "north":
            "North."


@schema
def caller(miami=False, sunny=False, length: Annotated[str | None, MaxTokens(4)] = None, where="north", beaches=False):
    if miami:
        all_beaches(sunny, length=length, where=where)
    if beaches:
        all_beaches(sunny=False, length="short")


def test_a_call_is_a_nested_module_and_hands_arguments_on() -> None:
    assert imported(caller, caller(miami=True)) == ["miami", "miami/beaches", "miami/beaches/north"]
    everything = caller(miami=True, sunny=True, length="wide", where="south")
    assert imported(caller, everything) == [
        "miami",
        "miami/beaches",
        "miami/beaches/sunny",
        "miami/beaches/south",
    ]
    assert arguments(caller, everything) == {"miami/beaches/length": "wide"}
    assert arguments(caller, caller(miami=True)) == {"miami/beaches/length": "long"}


def test_a_branch_and_the_function_of_its_name_are_one_module() -> None:
    assert "beaches" in names(caller) and "beaches/beaches" not in names(caller)
    assert imported(caller, caller(beaches=True)) == ["beaches", "beaches/south"]
    assert arguments(caller, caller(beaches=True)) == {"beaches/length": "short"}


def test_functions_may_stand_below_their_callers_and_in_closures() -> None:
    def inner_functions() -> SchemaFunction:
        @schema
        def outer() -> None:
            later()
            below()

        @schema
        def later() -> None:
            "L"

        return outer

    assert names(inner_functions()) == ["later", "below"]


@schema
def below():
    "B"


class Group:
    @schema
    def member() -> None:  # type: ignore[misc]
        "M"

    @staticmethod
    @schema
    def static() -> None:
        "S"


@schema
def dotted():
    Group.member()
    Group.static()


def test_a_function_may_be_called_by_a_dotted_name() -> None:
    assert names(dotted) == ["member", "static"]
    assert Group.member.schema == Group().member.schema


@pytest.mark.parametrize("value", ["x", "", " three ", "<user>&", "two\nlines"])
def test_arguments_arrive_to_the_byte(value: str) -> None:
    assert arguments(all_beaches_in, all_beaches_in(value)) == {"beaches/length": value}


@schema
def all_beaches_in(length: Annotated[str, MaxTokens(4)]):
    all_beaches(length=length)
