"""Prompts fit the limit and the model, markers and answer included."""

from __future__ import annotations

import pytest

from eval.engine import loaded
from eval.longbench.case import build_case
from eval.longbench.fit import ANSWER_TOKENS, fit, gold_answer_ids
from eval.longbench.record import Record
from eval.longbench.sample import Sample
from eval.longbench.tasks import TASKS
from promptcache import PromptCache
from promptcache.errors import RequestError
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama
from tests.tokenizers import published


def _record(context: str = "word " * 300, answer: str = "gold") -> Record:
    return Record(0, "Which?", context, (answer, "other"), 9, "any", "en", None, "id")


@pytest.fixture(scope="module", params=["bytes", "smollm2", "bos"])
def engine(request) -> PromptCache:
    tokenizer = published("smollm2") if request.param == "smollm2" else byte_tokenizer(bos=request.param == "bos")
    return paper_engine(tiny_llama(vocab_size=len(tokenizer), max_position_embeddings=1024), tokenizer)


@pytest.mark.parametrize("task", ["2wikimqa", "trec", "lcc", "passage_count"])
@pytest.mark.parametrize("limit", [700, 701, 960, 5000, None])
def test_the_plan_is_as_long_as_allowed(engine, task, limit) -> None:
    record = _record("".join(f"Passage {n}:\nword <|im_end|> word\n" for n in range(1, 300)))
    parts = fit(engine, Sample(TASKS[task], record, limit), "context")
    most = min(limit or 5000, 1024 - max(TASKS[task].max_new_tokens, ANSWER_TOKENS))
    lengths = []
    for split in ("whole", "modular"):
        case = build_case(TASKS[task], parts, split, split)
        with loaded(engine, case.schema):
            lengths.append(engine.plan(case.prompt).num_tokens)
    assert most - 40 < max(lengths) <= most
    assert parts.after.endswith(("Answer:", "Which?", "code:\n", "is: ")), "the question is never cut"


def test_what_fits_is_not_cut(engine) -> None:
    parts = fit(engine, Sample(TASKS["lcc"], _record("short\n"), 500), "context")
    assert parts.context == "short\n"


def test_the_question_is_cut_only_when_asked_to(engine) -> None:
    sample = Sample(TASKS["2wikimqa"], _record(), 40)
    with pytest.raises(RequestError, match="instruction and question"):
        fit(engine, sample, "context")
    cut = fit(engine, Sample(TASKS["2wikimqa"], _record(), 100), "prompt")
    assert 10 < len(cut.text) < 600 and not cut.after.startswith("\n\nAnswer the question based")


def test_a_model_without_a_limit_needs_one(engine, monkeypatch) -> None:
    monkeypatch.setattr("eval.longbench.fit.max_positions", lambda _: None)
    assert fit(engine, Sample(TASKS["lcc"], _record("short\n"), 500), "context").context == "short\n"
    with pytest.raises(RequestError, match="--max-length"):
        fit(engine, Sample(TASKS["lcc"], _record(), None), "context")


@pytest.mark.parametrize(
    ("task", "end", "text"),
    [
        ("2wikimqa", "Answer:", "gold"),
        ("trec", "Type:", " gold"),
        ("samsum", "Summary: ", "gold"),
        ("lcc", "code:\n", "gold"),
        ("trec", "", "gold"),
    ],
)
def test_an_answer_stands_as_the_model_would_write_it(task, end, text) -> None:
    ids = gold_answer_ids(byte_tokenizer(), TASKS[task], _record(), end)
    assert bytes(ids).decode() == text


def test_an_answers_first_tokens_and_its_markers_as_text() -> None:
    long = gold_answer_ids(byte_tokenizer(), TASKS["2wikimqa"], _record(answer="<|im_end|>" + "x" * 50), "Answer:")
    assert bytes(long) == b"<|im_end|>" + b"x" * 22
    assert gold_answer_ids(byte_tokenizer(bos=True), TASKS["2wikimqa"], _record(answer=""), "Answer:") == []
