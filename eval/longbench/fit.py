"""A record cut so that its prompt and an answer fit the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from eval.engine import max_positions
from eval.longbench.case import most_tokens
from eval.longbench.parts import PromptParts, prompt_parts
from eval.longbench.record import Record
from eval.longbench.sample import Sample
from eval.longbench.tasks import Task
from eval.longbench.truncate import Mode, truncate
from promptcache import Prompt, PromptCache
from promptcache.errors import RequestError

ANSWER_TOKENS = 32
"""Of a gold answer, for fidelity."""


def fit(engine: PromptCache, sample: Sample, mode: str) -> PromptParts:
    """The sample's prompt, at most `max_length` tokens with the chat template's, and with positions left for the
    longest answer that is asked of the model. Raises RequestError."""
    limit, room = max_positions(engine), max(sample.task.max_new_tokens, ANSWER_TOKENS)
    most = sample.max_length if limit is None else min(sample.max_length or limit, limit - room)
    if most is None:
        raise RequestError("the model names no largest position", hint="say how long prompts may be with --max-length")
    tokenizer = engine.tokenizer

    def encode(text: str) -> list[int]:
        return encode_text(tokenizer, text)

    def decode(ids: Sequence[int]) -> str:
        return cast(str, tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    return truncate(
        prompt_parts(sample.task, sample.record),
        most,
        encode,
        decode,
        mode=cast(Mode, mode),
        overhead=overhead(engine, sample.task),
        measure=lambda parts: most_tokens(sample.task, parts, encode),
    )


def encode_text(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text, with nothing added, and nothing in it taken for a special token."""
    found: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return found


def gold_answer_ids(tokenizer: Any, task: Task, record: Record, prompt_end: str) -> list[int]:
    """The first 32 tokens of the record's first gold answer, as the model would write it.

    In a plain prompt that ends in a word the answer begins with a space; in the assistant's turn it does not.
    """
    answer = record.answers[0]
    space = "" if task.chat or not prompt_end or prompt_end[-1:].isspace() else " "
    return encode_text(tokenizer, space + answer)[:ANSWER_TOKENS]


def overhead(engine: PromptCache, task: Task) -> int:
    """Tokens that stand in every prompt of such a task: the template's markers, a BOS."""
    prompt = Prompt(messages=[{"role": "user", "content": "x"}]) if task.chat else Prompt(text="x")
    return engine.plan(prompt).num_tokens - len(encode_text(engine.tokenizer, "x"))
