"""States for transformers' own `generate`."""

from __future__ import annotations

import pytest
import torch

from promptcache import Prompt, PromptCache
from promptcache.errors import RequestError
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

SCHEMA = """<schema name="s">Start. <module name="a">first module </module><module name="gap">left out</module>
<module name="b">second <parameter name="p" length="6"/> module</module></schema>"""
GAPS = Prompt(schema="s", imports=["a", "b"], arguments={"p": "odd"}, text=" What?")
EXACT = Prompt(schema="x", imports=["a"], text=" What?")
PLAIN = "no modules at all"


@pytest.fixture(scope="module", params=["segments", "assembled"])
def engine(request) -> PromptCache:
    engine = paper_engine(tiny_llama(), byte_tokenizer(), attention=request.param)
    engine.load_schema(SCHEMA)
    engine.load_schema('<schema name="x"><module name="a">first module</module></schema>')
    return engine


def run(engine, arguments, **options):
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, **options}
    return engine.model.generate(**arguments, **options)[:, arguments["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("prompt", [GAPS, EXACT, PLAIN])
def test_generate_equals_our_own(engine, prompt):
    before = {key: [t.clone() for t in (*b.keys, *b.values)] for key, b in engine.store.held().items()}
    expected = list(engine.generate(prompt, max_new_tokens=8).token_ids)
    for _ in range(2):
        assert run(engine, engine.prepare(prompt)) == [expected]
    for key, tensors in before.items():
        block = engine.store.held()[key]
        assert all(torch.equal(a, b) for a, b in zip(tensors, (*block.keys, *block.values), strict=True))


def test_beams_and_return_sequences_equal_stock(engine):
    ids = torch.tensor([engine.plan(EXACT).token_ids])
    stock = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    options = {"num_beams": 3, "num_return_sequences": 2}
    assert run(engine, engine.prepare(EXACT, copies=3), **options) == run(engine, stock, **options)
    torch.manual_seed(0)
    sampled = run(engine, engine.prepare(EXACT, copies=2), num_return_sequences=2, do_sample=True)
    torch.manual_seed(0)
    assert sampled == run(engine, stock, num_return_sequences=2, do_sample=True)


def test_copies_are_checked(engine):
    with pytest.raises(RequestError, match="copies=0"):
        engine.prepare(EXACT, copies=0)


def test_why_prompt_lookup_decoding_cannot_work_on_it(engine):
    """It runs the whole prompt again on top of the states that are there: another text, and no error."""
    expected = list(engine.generate(EXACT, max_new_tokens=8).token_ids)
    try:
        found = run(engine, engine.prepare(EXACT), prompt_lookup_num_tokens=2)
    except Exception as error:
        found = error
    assert found != [expected]


def test_it_all_works_in_user_code_and_the_model_still_trains(engine):
    arguments = engine.prepare(EXACT)
    loss = engine.model(arguments["input_ids"], labels=arguments["input_ids"]).loss
    loss.backward()
    assert engine.model.get_input_embeddings().weight.grad is not None
    engine.model.zero_grad(set_to_none=True)
    arguments["cache"].layers[0].keys.add_(1)  # an inference tensor would refuse


def test_a_prompt_of_one_token(engine):
    assert run(engine, engine.prepare("x")) == [list(engine.generate("x", max_new_tokens=8).token_ids)]
