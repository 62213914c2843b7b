"""Counts are the truth: a forward hook sees exactly `computed_tokens`."""

from __future__ import annotations

import pytest

from promptcache import PromptCache
from tests.engine.comparison import byte_engine

SCHEMA = """<schema name="s">Intro. <module name="a">first <parameter name="p" length="6"/> end</module>
<module name="live" cache="false">never stored</module><module name="b">second</module></schema>"""
PROMPTS = [
    '<prompt schema="s"><a p="now"/><b/>What?</prompt>',
    '<prompt schema="s"><a/></prompt>',
    '<prompt schema="s"><live/>?</prompt>',
    '<prompt schema="s"/>',
    '<prompt schema="s">ab<b/></prompt>',
    "no modules at all",
]


class HookCount:
    """Tokens that go through the model."""

    def __init__(self, engine: PromptCache) -> None:
        self.tokens = 0
        self.engine = engine

    def __enter__(self) -> HookCount:
        def count(module, args, kwargs):
            self.tokens += kwargs["input_ids"].numel()

        self.hook = self.engine.model.register_forward_pre_hook(count, with_kwargs=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.hook.remove()


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    engine = byte_engine()
    engine.load_schema(SCHEMA)
    return engine


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("reuse", [True, False])
def test_the_hook_counts_computed_tokens(engine, prompt, reuse):
    with HookCount(engine) as hook:
        usage = engine.generate(prompt, max_new_tokens=1, reuse=reuse).usage
    assert hook.tokens == usage.computed_tokens
    assert usage.reused_tokens + usage.repaired_tokens + usage.fresh_tokens == usage.prompt_tokens
    assert usage.completion_tokens == 1
    if not reuse:
        assert usage.computed_tokens == usage.fresh_tokens == usage.prompt_tokens


def test_decode_steps_run_one_token_each(engine):
    with HookCount(engine) as hook:
        usage = engine.generate(PROMPTS[0], max_new_tokens=5).usage
    assert usage.completion_tokens == 5
    assert hook.tokens == usage.computed_tokens + 4  # the last token needs no pass of its own


def test_loading_counts_its_tokens(engine):
    text = '<schema name="once">some text<module name="m">more</module></schema>'
    with HookCount(engine) as hook:
        loaded = engine.load_schema(text)
    assert hook.tokens == loaded.encoded_tokens == loaded.num_tokens == 13
    with HookCount(engine) as hook:
        assert engine.load_schema(text) is loaded
    assert hook.tokens == 0


def test_a_request_counts_the_encoding_that_it_waits_for(engine):
    engine.load_schema('<schema name="lazy"><module name="m">module</module></schema>', encode=False)
    prompt = '<prompt schema="lazy"><m/>?</prompt>'
    for computed in (6 + 1, 1):
        with HookCount(engine) as hook:
            usage = engine.generate(prompt, max_new_tokens=1).usage
        assert hook.tokens == usage.computed_tokens == computed
        assert usage.reused_tokens == 6


def test_ttft_contains_its_parts(engine):
    timings = engine.generate(PROMPTS[0], max_new_tokens=4).timings
    assert timings.ttft_ms == pytest.approx(timings.plan_ms + timings.assemble_ms + timings.prefill_ms, rel=0.02)
    assert timings.total_ms == pytest.approx(timings.ttft_ms + timings.decode_ms, rel=0.02)
