"""The example files of the paper's public code, with the default model."""

from __future__ import annotations

from pathlib import Path

import pytest

from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.policies.reserved import Reserved
from promptcache.models.loading import LoadedModel
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import read_prompt, read_schema
from tests.layout.dialogues import reference_ids, spoken
from tests.paper import paper_engine

NAMES = (
    "code_generation_bookstore",
    "empty",
    "parameterized_prompts",
    "persona_generation",
    "schema_code_generation",
    "schema_mbti_short",
    "schema_persona",
)
"""All but `code_generation_game`, which is not well-formed."""


@pytest.fixture
def folder(shared_data: Path) -> Path:
    return shared_data / "reference_schemas"


@pytest.mark.model
@pytest.mark.parametrize("name", NAMES)
def test_they_lay_out(name: str, folder: Path, real_engine_model: LoadedModel) -> None:
    tokenizer = HFTokenizer(real_engine_model.tokenizer)
    schema = read_schema(folder / f"{name}.xml")
    layout = Reserved().lay_out(
        schema,
        tokenizer,
        encoding="isolated",
        context=KeyContext(model="m", tokenizer="t", dtype="float32"),
        max_positions=8192,
    )
    assert [path for path, _ in schema.walk_modules()] == list(layout.modules)[1:]
    assert layout.num_positions == layout.tree.root.length
    assert layout.num_tokens > 0


@pytest.mark.model
def test_no_other_file_is_there(folder: Path) -> None:
    found = {path.stem for path in folder.glob("*.xml")}
    assert found == {*NAMES, "prompt_mbti", "code_generation_game"}


@pytest.mark.model
def test_a_prompt_with_nothing_new_answers_once_it_asks(folder: Path, real_engine_model: LoadedModel) -> None:
    engine = paper_engine(real_engine_model.model, real_engine_model.tokenizer)
    loaded = engine.load_schema(folder / "schema_mbti_short.xml")
    prompt = read_prompt(folder / "prompt_mbti.xml")
    plan = engine.plan(prompt)
    assert plan.count("fresh") == 0
    assert plan.count("repaired") == 1
    # The placeholders of its unions are modules without a token, and can be imported all the same.
    assert [loaded.layout.modules[name].length for name in ("EI", "ST", "TF", "JP")] == [0] * 4
    empty = engine.plan('<prompt schema="mbti"><EI/><ST/><TF/><JP/></prompt>')
    assert empty.num_tokens < plan.num_tokens and empty.count("fresh") == 0
    question = "What is Alex like?"
    asking = prompt.with_turn("user", question)
    done = engine.generate(asking, max_new_tokens=12)
    assert done.text.strip()
    assert done.usage.reused_tokens == plan.num_tokens
    turns = [*spoken(loaded.layout.schema.children, ["E", "N", "T", "P"]), ("user", question)]
    assert [role for role, _ in turns] == ["system", "user", "assistant", "user"]
    assert list(engine.plan(asking).token_ids) == reference_ids(real_engine_model.tokenizer, turns, None)
