"""The schemas of the repository keep what their README promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from promptcache.pml import (
    BoundPrompt,
    Module,
    NewText,
    Node,
    Parameter,
    Text,
    Turn,
    Union,
    bind,
    read_prompt,
    read_schema,
)
from promptcache.pml.schema_parser import parse_schema
from tests.schemas.repository import NAMES, PROMPTS, SCHEMAS, TIMED, answer_of, prompts_of, title


def bound(path: Path) -> BoundPrompt:
    return bind(read_prompt(path), read_schema(SCHEMAS / f"{path.parent.stem}.xml"))


def unions(nodes: tuple[Node, ...]) -> Iterator[Union]:
    for node in nodes:
        if isinstance(node, Union):
            yield node
        elif isinstance(node, Turn):
            yield from unions(node.children)


def question(prompt: BoundPrompt) -> str:
    last = prompt.turns[-1] if prompt.turns else prompt.items[-1]
    assert not isinstance(last, type(None)) and hasattr(last, "text")
    return last.text.strip()


def test_every_schema_is_listed() -> None:
    assert tuple(sorted(path.stem for path in SCHEMAS.glob("*.xml"))) == NAMES
    assert {path.parent.name for path in PROMPTS} == {f"{name}.prompts" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_schema_has_no_faults_and_no_warnings(name: str) -> None:
    schema = read_schema(SCHEMAS / f"{name}.xml")
    assert schema.name == name
    assert schema.notes == ()
    assert parse_schema(schema.to_xml()) == schema


@pytest.mark.parametrize("name", NAMES)
def test_a_system_turn_and_an_open_user_turn(name: str) -> None:
    system, user = read_schema(SCHEMAS / f"{name}.xml").children
    assert isinstance(system, Turn) and system.role == "system"
    assert isinstance(user, Turn) and user.role == "user"
    assert all(isinstance(node, Text) for node in system.children)


@pytest.mark.parametrize("path", PROMPTS, ids=title)
def test_prompt_binds_without_a_warning(path: Path) -> None:
    prompt = bound(path)
    assert prompt.schema is not None and prompt.schema.name == path.parent.stem
    assert prompt.notes == ()
    assert question(prompt).endswith("?")


@pytest.mark.parametrize("path", [path for path in PROMPTS if path.parent.stem in TIMED], ids=title)
def test_the_answer_stands_in_what_the_prompt_imports(path: Path) -> None:
    answer = answer_of(path)
    assert answer is not None, "the prompt has no comment with its answer"
    texts = [item.module for item in bound(path).imports()]
    assert any(answer in "".join(n.text for n in module.children if isinstance(n, Text)) for module in texts)


@pytest.mark.parametrize("name", TIMED)
def test_at_least_six_different_questions(name: str) -> None:
    assert len({question(bound(path)) for path in prompts_of(name)}) == len(prompts_of(name)) >= 6


def test_game_prompts_import_all_five_files_and_continue_the_turn() -> None:
    for path in prompts_of("game"):
        prompt = bound(path)
        assert [item.path for item in prompt.imports()] == ["player.py", "combat.py", "world.py", "save.py", "main.py"]
        assert isinstance(prompt.items[-1], NewText) and not prompt.turns


def test_game_modules_are_the_files() -> None:
    schema = read_schema(SCHEMAS / "game.xml")
    files = sorted((SCHEMAS / "game").glob("*.py"))
    assert sorted(path for path, _ in schema.walk_modules()) == [file.name for file in files]
    for file in files:
        module = schema.module(file.name)
        assert module is not None and isinstance(module.children[0], Text)
        assert module.children[0].text.strip() == file.read_text(encoding="utf-8").strip()


def test_trip_has_two_unions_two_parameters_with_defaults_and_a_buffer() -> None:
    schema = read_schema(SCHEMAS / "trip.xml")
    destinations, transport = unions(schema.children)
    assert len(destinations.members) >= 4 and len(transport.members) >= 4
    assert all(isinstance(member, Module) and len(member.children) == 3 for member in destinations.members)
    plan, wishes = schema.module("plan"), schema.module("wishes")
    assert plan is not None and wishes is not None
    filled = [node for node in plan.children if isinstance(node, Parameter)]
    assert [(p.name, p.scaffold is not None, p.default is not None) for p in filled] == [
        ("days", True, True),
        ("budget", True, True),
    ]
    buffer = wishes.children[1]
    assert isinstance(buffer, Parameter) and buffer.default is None


def test_trip_prompts_show_defaults_room_buffer_and_turns() -> None:
    by_name = {path.stem: bound(path) for path in prompts_of("trip")}
    without = {item.path: dict(item.arguments) for item in by_name["defaults"].imports()}
    assert without["plan"] == {"days": "three", "budget": "900"} and not without["wishes"]
    items = by_name["family"].items
    assert [isinstance(item, NewText) for item in items] == [False, False, True, False, True]
    assert any(dict(item.arguments).get("text") for item in by_name["wishes"].imports())
    assert [turn.role for turn in by_name["conversation"].turns] == ["assistant", "user"]


def test_handbook_has_eight_sections_and_four_offices() -> None:
    schema = read_schema(SCHEMAS / "handbook.xml")
    (offices,) = unions(schema.children)
    sections = [module for path, module in schema.walk_modules() if module not in offices.members]
    assert len(sections) == 8 and len(offices.members) == 4
    for number, module in enumerate(sections, 1):
        assert isinstance(module.children[0], Text) and module.children[0].text.startswith(f"Section {number}: ")


def test_persona_has_six_unions_of_five() -> None:
    schema = read_schema(SCHEMAS / "persona.xml")
    traits = list(unions(schema.children))
    assert [len(trait.members) for trait in traits] == [5] * 6
    labels = ["Age", "Residence", "Education", "Occupation", "Status", "Personality"]
    for label, trait in zip(labels, traits, strict=True):
        for member in trait.modules():
            assert isinstance(member.children[0], Text) and member.children[0].text.startswith(f"{label}: You ")
            assert len(member.children[0].text.strip().splitlines()) == 3
