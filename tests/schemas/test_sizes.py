"""The schemas of the repository in tokens of the default model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from promptcache import PromptCache
from promptcache.pml import bind, read_prompt, read_schema
from tests.paper import paper_engine
from tests.schemas.repository import NAMES, PROMPTS, SCHEMAS, TIMED, answer_of, prompts_of, title

if TYPE_CHECKING:
    from promptcache.models.loading import LoadedModel

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def engine(real_engine_model: LoadedModel) -> PromptCache:
    """Holds all schemas, and has run the model for none of them."""
    engine = paper_engine(real_engine_model.model, real_engine_model.tokenizer)
    for name in NAMES:
        engine.load_schema(SCHEMAS / f"{name}.xml", encode=False)
    return engine


@pytest.mark.parametrize("name", NAMES)
def test_no_warnings_of_the_tokenizer(engine: PromptCache, name: str) -> None:
    layout = engine.lay_out(SCHEMAS / f"{name}.xml")
    assert layout.notes == ()
    assert layout.num_positions <= 4096


def test_destinations_have_100_tokens_of_their_own(engine: PromptCache) -> None:
    layout = engine.lay_out(SCHEMAS / "trip.xml")
    own: dict[str, int] = {}
    for segment in layout.segments.values():
        own[segment.owner] = own.get(segment.owner, 0) + segment.length
    assert all(own[name] >= 100 for name in ("sereno", "kaldvik", "montelar", "brennick", "tamarin"))


@pytest.mark.parametrize(("name", "least"), [("game", 2000), ("handbook", 3000)])
def test_documents_are_long(engine: PromptCache, name: str, least: int) -> None:
    layout = engine.lay_out(SCHEMAS / f"{name}.xml")
    assert sum(segment.length for segment in layout.segments.values() if segment.owner) >= least


@pytest.mark.parametrize("name", ["game", "handbook"])
def test_prompts_import_2000_tokens_in_two_modules(engine: PromptCache, name: str) -> None:
    for path in prompts_of(name):
        modules: dict[str, int] = {}
        for run in engine.plan(path).runs:
            if run.segment and run.segment.owner:
                modules[run.segment.owner] = modules.get(run.segment.owner, 0) + run.length
        assert len(modules) >= 2 and sum(modules.values()) >= 2000


@pytest.mark.parametrize("name", TIMED)
def test_at_least_six_prompts_have_at_most_40_fresh_tokens(engine: PromptCache, name: str) -> None:
    fresh = [engine.plan(path).count("fresh") for path in prompts_of(name)]
    assert sum(count <= 40 for count in fresh) >= 6


@pytest.mark.parametrize("path", PROMPTS, ids=title)
def test_prompt_is_the_conversation_that_the_template_writes(engine: PromptCache, path: Path) -> None:
    prompt = bind(read_prompt(path), read_schema(SCHEMAS / f"{path.parent.stem}.xml"))
    text = engine.tokenizer.decode(engine.plan(path).token_ids)
    turns = text.split("<|im_start|>")
    assert turns[0] == ""
    assert [turn.split("\n", 1)[0] for turn in turns[1:]] == [
        "system",
        "user",
        *(turn.role for turn in prompt.turns),
        "assistant",
    ]
    assert all(turn.endswith("<|im_end|>\n") for turn in turns[1:-1]) and turns[-1] == "assistant\n"
    # One conversation, tokenized as a whole, gives the same ids: no token would cross a border.
    assert tuple(engine.tokenizer(text, add_special_tokens=False).input_ids) == engine.plan(path).token_ids


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMED)
def test_most_answers_are_right(engine: PromptCache, name: str) -> None:
    right = []
    for path in prompts_of(name):
        answer = answer_of(path)
        assert answer is not None
        right.append(answer.casefold() in engine.generate(path, max_new_tokens=32).text.casefold())
    assert sum(right) >= 0.6 * len(right)
