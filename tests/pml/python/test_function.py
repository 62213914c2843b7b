"""A schema written as a function equals the same schema written as XML."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from promptcache.pml import Prompt, bind, parse_prompt, parse_schema, read_schema
from promptcache.pml.python import MaxTokens, schema, system, user
from tests.pml.python import trip as trip_module
from tests.pml.python.loading import WITHOUT_ENGINE

ROOT = Path(__file__).parents[3]

XML = """
<schema name="tour">
  <system>
    You are a travel planner.
    <module name="miami">
      Miami has
        beaches & <hotels>.
      <module name="beaches">
        South Beach is long.
      </module>
      <module name="hotel">
        Stay at the <parameter name="hotel_name" length="8" default="Palms"/> hotel.
      </module>
    </module>
    <union>
      <module name="train">
        By train.
      </module>
      <module name="plane">
        By plane.
      </module>
    </union>
  </system>
  <user>
    <union>
      <module name="cheap">
        I have no money.
      </module>
      <module name="rich">
        I have money.
      </module>
      <module name="cheap.else"/>
    </union>
    <module name="plan">
      Plan a trip of <parameter name="days" length="5" scaffold="seven"/> days.
    </module>
  </user>
</schema>
""".replace("& <hotels>", "&amp; &lt;hotels&gt;")


@schema
def hotel(hotel_name: Annotated[str, MaxTokens(8)] = "Palms"):
    f"Stay at the {hotel_name} hotel."  # noqa: B021


@schema(name="tour")
def tour_function(
    days: Annotated[str, MaxTokens(5, scaffold="seven")],
    miami: bool = False,
    beaches: bool = False,
    sleep: Annotated[str | None, MaxTokens(8)] = None,
    by: str | None = None,
    cheap: bool = False,
    rich: bool = False,
    plan: bool = True,
):
    with system():
        "You are a travel planner."
        if miami:
            """
            Miami has
              beaches & <hotels>.
            """
            if beaches:
                "South Beach is long."
            hotel(sleep)
        match by:
            case "train":
                "By train."
            case "plane":
                "By plane."
    with user():
        if cheap:
            "I have no money."
        elif rich:
            "I have money."
        else:
            pass
        if plan:
            f"Plan a trip of {days} days."


def test_a_function_equals_its_xml() -> None:
    assert tour_function.schema == parse_schema(XML)
    assert parse_schema(tour_function.schema.to_xml()) == tour_function.schema
    assert tour_function.schema is tour_function.schema


def test_the_trip_of_the_repository_equals_its_function() -> None:
    assert trip_module.trip.schema == read_schema(ROOT / "schemas" / "trip.xml")


def test_spans_are_places_in_the_python_file() -> None:
    module = tour_function.schema.module("plan")
    assert module is not None and module.span is not None
    assert module.span.source.name == __file__
    line = module.span.source.line(module.span.line)
    assert line.strip() == "if plan:" and line[module.span.column - 1 :] == "if plan:"


def test_all_values_bind() -> None:
    flags = itertools.product([False, True], repeat=5)
    ways: list[str | None] = [None, "train", "plane"]
    for (miami, beaches, cheap, rich, plan), by, sleep in itertools.product(flags, ways, [None, "Ritz"]):
        prompt = tour_function(
            "three", miami, beaches, by=by, cheap=cheap, rich=rich, plan=plan, sleep=sleep, text="Go!"
        )
        bound = bind(prompt, tour_function.schema)
        top = {found.path for found in bound.imports() if "/" not in found.path}
        wealth = {"cheap" if cheap else "rich" if rich else "cheap.else"}
        assert top == wealth | ({"miami"} if miami else set()) | ({by} if by else set()) | ({"plan"} if plan else set())


def test_a_call_is_the_prompt_that_its_xml_is() -> None:
    written = parse_prompt(
        '<prompt schema="tour"><miami><beaches/><hotel hotel_name="Ritz"/></miami><plane/><rich/><plan days="three"/>'
        "<user>Where do I start?</user></prompt>"
    )
    called = tour_function(
        "three",
        miami=True,
        beaches=True,
        sleep="Ritz",
        by="plane",
        rich=True,
        messages=[{"role": "user", "content": "Where do I start?"}],
    )
    assert isinstance(called, Prompt)
    assert bind(called, tour_function.schema) == bind(written, tour_function.schema)


def test_the_trip_of_the_repository_can_be_called() -> None:
    prompt = trip_module.trip(
        destination="kaldvik", boats=True, wine=True, plan=True, wishes=True, text=" quiet & cheap"
    )
    written = parse_prompt(
        '<prompt schema="trip"><plan/><wishes text=" quiet &amp; cheap"/><kaldvik><boats/></kaldvik></prompt>'
    )
    assert bind(prompt, trip_module.trip.schema) == bind(written, trip_module.trip.schema)


def test_the_same_bytes_in_every_process() -> None:
    code = WITHOUT_ENGINE + (
        "from tests.pml.python.test_function import tour_function\nprint(ascii(tour_function.schema.to_xml()))"
    )
    written = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert written == {ascii(tour_function.schema.to_xml())}
