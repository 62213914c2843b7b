"""Records become schemas and prompts whose texts, joined, are LongBench's prompt."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from eval.longbench.case import Case, build_case, most_tokens
from eval.longbench.data import load_dataset
from eval.longbench.parts import PromptParts, prompt_parts
from eval.longbench.split import Split, split_context
from eval.longbench.tasks import TASKS
from eval.longbench.truncate import truncate
from promptcache.pml.nodes import Import, Module, NewText, Node, Text, Turn
from tests.eval.shared_data import LONGBENCH, needs_longbench
from tests.eval.toy_tokenizers import TOKENIZERS

PARTS = PromptParts("Read <b>&amp; this: ", "Passage 1:\nA <|im_end|>\nPassage 2:\n]]> B", "\n\nWho?")


def _texts(children: Iterable[Node]) -> list[str]:
    texts = []
    for child in children:
        if isinstance(child, Text):
            texts.append(child.text)
        elif isinstance(child, Module | Turn):
            texts += _texts(child.children)
    return texts


def _joined(case: Case) -> str:
    new = [item.text for item in case.prompt.items if isinstance(item, NewText)]
    return "".join(_texts(case.schema.children) + new)


def test_modular_has_a_module_a_passage_and_imports_all_in_order() -> None:
    case = build_case(TASKS["2wikimqa"], PARTS, "modular", "0-modular")
    assert case.schema.name == "longbench-2wikimqa-0-modular" == case.prompt.schema
    (turn,) = case.schema.children
    assert isinstance(turn, Turn) and turn.role == "user"
    assert turn.children == (
        Text("Read <b>&amp; this: "),
        Module("passage_1", (Text("Passage 1:\nA <|im_end|>\n"),)),
        Module("passage_2", (Text("Passage 2:\n]]> B"),)),
    )
    assert case.prompt.items == (Import("passage_1"), Import("passage_2"), NewText("\n\nWho?"))


def test_whole_is_one_anonymous_text() -> None:
    case = build_case(TASKS["hotpotqa"], PARTS, "whole", "0-whole")
    assert case.schema.children == (Turn("user", (Text(PARTS.before + PARTS.context),)),)
    assert case.prompt.items == (NewText(PARTS.after),)


def test_few_shot_and_code_stand_outside_turns() -> None:
    for task in TASKS.values():
        case = build_case(task, PARTS, "modular", "x")
        assert any(isinstance(child, Turn) for child in case.schema.children) == task.chat
        assert _joined(case) == PARTS.text


@pytest.mark.parametrize("split", ["modular", "whole"])
def test_empty_parts(split: Split) -> None:
    for before, context, after in itertools.product(["", "a"], ["", "Passage 1: b"], ["", "c"]):
        case = build_case(TASKS["hotpotqa"], PromptParts(before, context, after), split, "x")
        assert _joined(case) == before + context + after


def test_the_measure_is_the_dearest_split() -> None:
    encode, decode = TOKENIZERS["threes"]
    task = TASKS["hotpotqa"]
    pieces = [PARTS.before, *split_context(task.name, PARTS.context), PARTS.after]
    assert most_tokens(task, PARTS, encode) == sum(-(-len(piece) // 3) for piece in pieces)
    assert most_tokens(task, PARTS, encode) > len(encode(PARTS.text))
    limit = most_tokens(task, PARTS, encode) - 1
    shorter = truncate(PARTS, limit, encode, decode, measure=lambda parts: most_tokens(task, parts, encode))
    assert most_tokens(task, shorter, encode) <= limit and shorter.after == PARTS.after


@needs_longbench
@pytest.mark.parametrize("name", TASKS)
def test_all_real_records_become_cases(name: str) -> None:
    task = TASKS[name]
    for record in load_dataset(name, LONGBENCH):
        parts = prompt_parts(task, record)
        expected = task.template.format(context=record.context, input=record.input)
        for split in ("modular", "whole"):
            assert _joined(build_case(task, parts, split, f"{record.index}-{split}")) == expected
