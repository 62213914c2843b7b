"""A prefix is exact wherever the text is split."""

from __future__ import annotations

import pytest
import torch

from promptcache import PromptCache
from promptcache.errors import RequestError
from tests.engine.comparison import distance
from tests.engine.test_counts import HookCount
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama
from tests.tokenizers import published

TEXT = "Sort this ticket into one category.\nTicket: my card is lost\nCategory:"
MESSAGES = [{"role": "system", "content": "You sort tickets."}, {"role": "user", "content": "My card is lost."}]


def merging_engine(**options) -> PromptCache:
    """An engine whose tokenizer merges characters, so that a split can fall inside a token."""
    tokenizer = published("smollm2")
    return paper_engine(tiny_llama(vocab_size=len(tokenizer)), tokenizer, **options)


@pytest.fixture(scope="module", params=["segments", "assembled"])
def engine(request) -> PromptCache:
    return merging_engine(attention=request.param)


def test_every_split_of_a_text(engine):
    plan, logits = engine.plan(TEXT), engine.logits(TEXT)
    tokens = set()
    for at in range(len(TEXT) + 1):
        prefix = engine.prefix(TEXT[:at])
        assert prefix.plan(TEXT[at:]).token_ids == plan.token_ids
        assert distance(prefix.logits(TEXT[at:]), logits) < 1e-4
        tokens.add(prefix.num_tokens)
        engine.unload_schema(prefix.schema.name)
    assert len(tokens) > 10 and len(engine.store) == 0


def test_every_split_of_a_message(engine):
    prompt = [*MESSAGES]
    whole = engine.prefix(prompt)
    for at in range(len(MESSAGES[1]["content"]) + 1):
        start = [MESSAGES[0], {"role": "user", "content": MESSAGES[1]["content"][:at]}]
        prefix = engine.prefix(start)
        # The whole conversation has other ids from the split on: only what is common is reused.
        plan = engine._requests.plan(_prompt(prompt), None)
        found = prefix._reusing(plan)
        assert found.token_ids == plan.token_ids
        state = engine._requests.assemble(engine._requests.planned(found, prefix.schema.layout))
        assert distance(state.prefill()[-1], whole.logits()) < 1e-4
        engine.unload_schema(prefix.schema.name) if prefix.schema.name != whole.schema.name else None
    engine.unload_schema(whole.schema.name)


def _prompt(messages):
    from promptcache import Prompt

    return Prompt(messages=messages)


def test_messages_and_the_next_user_turn(engine):
    prefix = engine.prefix(MESSAGES[:1])
    assert prefix.plan("My card is lost.").token_ids == engine._requests.plan(_prompt(MESSAGES), None).token_ids
    more = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    assert prefix.plan(more).token_ids == engine._requests.plan(_prompt([*MESSAGES[:1], *more]), None).token_ids
    usage = prefix.generate("My card is lost.", max_new_tokens=2).usage
    assert usage.reused_tokens == prefix.num_tokens


def test_the_reply_equals_the_unsplit_prompts(engine):
    prefix = engine.prefix(TEXT[:30])
    whole = engine.generate(TEXT, max_new_tokens=8)
    done = prefix.generate(TEXT[30:], max_new_tokens=8)
    assert done.token_ids == whole.token_ids and done.exact
    assert done.token_ids == prefix.generate(TEXT[30:], max_new_tokens=8, reuse=False).token_ids
    assert "".join(prefix.stream(TEXT[30:], max_new_tokens=8)) == done.text
    with HookCount(engine) as hook:
        usage = prefix.generate(TEXT[30:], max_new_tokens=1).usage
    assert hook.tokens == usage.computed_tokens == usage.prompt_tokens - usage.reused_tokens


def test_forward_gives_all_suffix_logits(engine):
    prefix = engine.prefix(TEXT[:30])
    plan = prefix.plan(TEXT[30:])
    with torch.no_grad():
        stock = engine.model(torch.tensor([plan.token_ids])).logits[0]
    rows = plan.num_tokens - plan.count("reused")
    assert distance(prefix.forward(TEXT[30:]), stock[-rows:]) < 1e-4


def test_an_empty_prefix_and_an_empty_suffix(engine):
    assert distance(engine.prefix("").logits(TEXT), engine.logits(TEXT)) < 1e-4
    for _ in range(2):
        assert distance(engine.prefix(TEXT).logits(), engine.logits(TEXT)) < 1e-4
    with pytest.raises(RequestError, match="no tokens"):
        engine.prefix("").logits("")


def test_a_prefix_of_text_takes_text(engine):
    with pytest.raises(RequestError, match="takes text"):
        engine.prefix(TEXT).generate(MESSAGES)


LABELS = ["no", "none", "nonesuch", "card lost", "card stolen", "z"]


def stock_scores(engine, prompt_ids, label_ids):
    """Each label in a pass of its own by the stock model."""
    scores = []
    for ids in label_ids:
        with torch.no_grad():
            logits = engine.model(torch.tensor([[*prompt_ids, *ids]])).logits[0].log_softmax(-1)
        scores.append(sum(float(logits[len(prompt_ids) - 1 + k, token]) for k, token in enumerate(ids)))
    return scores


@pytest.mark.parametrize("reuse", [True, False])
def test_scores_equal_the_stock_models(engine, reuse):
    tokenizer = engine._tokenizer
    prefix = engine.prefix(TEXT[:40])
    base = engine.plan(TEXT).token_ids
    texts = [" " + label for label in LABELS]
    ids = [tokenizer.encode(TEXT + text, behind=None, start=True) for text in texts]
    assert all(found[: len(base)] == base for found in ids)
    expected = stock_scores(engine, base, [found[len(base) :] for found in ids])
    with HookCount(engine) as hook:
        scores = prefix.score(TEXT[40:], texts, reuse=reuse)
    assert [score.logprob for score in scores] == pytest.approx(expected, abs=1e-4)
    assert [score.num_tokens for score in scores] == [len(found) - len(base) for found in ids]
    # One pass: the prompt's new tokens, and each token that another one follows once.
    inner = {tuple(found[len(base) : n]) for found in ids for n in range(len(base) + 1, len(found))}
    reused = prefix.plan(TEXT[40:]).count("reused") if reuse else 0
    assert hook.tokens == len(base) - reused + len(inner)


def test_classification_does_not_depend_on_order_or_other_labels(engine):
    prefix = engine.prefix("Sort the ticket.\n")
    items = ["my card is lost", "hello", ""]
    first = prefix.classify(items, LABELS)
    for found, again in zip(first, prefix.classify(items, LABELS[::-1]), strict=True):
        assert found.label == again.label and found.margin == pytest.approx(again.margin, abs=1e-5)
        assert dict(found.scores) == pytest.approx(dict(again.scores), abs=1e-5)
        assert found.scores[found.label] == max(found.scores.values())
    alone = prefix.classify(items, ["none"])
    assert [f.scores["none"] for f in alone] == pytest.approx([f.scores["none"] for f in first], abs=1e-5)
    summed = prefix.classify(items, LABELS, normalize=False)
    for found, sums in zip(first, summed, strict=True):
        for label, score in found.details.items():
            assert found.scores[label] == pytest.approx(score.logprob / score.num_tokens)
            assert sums.scores[label] == pytest.approx(score.logprob, abs=1e-4)


def test_one_token_labels_need_one_forward():
    engine = paper_engine(tiny_llama(), byte_tokenizer())
    prefix = engine.prefix("Pick a letter.\n")
    with HookCount(engine) as hook:
        prefix.classify(["x"], list("abc"), template="{item}:", separator="")
    assert hook.tokens == len("x:")


def test_classification_of_messages(engine):
    prefix = engine.prefix(MESSAGES[:1])
    (found,) = prefix.classify(["my card is lost"], ["lost", "stolen"], template="Ticket: {item}")
    prompt = [MESSAGES[0], {"role": "user", "content": "Ticket: my card is lost"}]
    ids = engine._requests.plan(_prompt(prompt), None).token_ids
    labels = [engine._tokenizer.encode(label, behind=None, start=False) for label in ("lost", "stolen")]
    expected = stock_scores(engine, ids, labels)
    assert [found.details[label].logprob for label in ("lost", "stolen")] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"labels": []},
        {"labels": ["a", "a"]},
        {"labels": [""], "separator": ""},
        {"labels": ["a"], "template": "no item"},
    ],
)
def test_classification_refuses(engine, arguments):
    with pytest.raises(RequestError):
        engine.prefix("Sort.\n").classify(["x"], **arguments)


def test_the_same_prefix_is_one_schema(engine):
    first, second = engine.prefix("Same text."), engine.prefix("Same text.")
    assert first.schema is second.schema
    assert engine.prefix([{"role": "user", "content": "Same text."}]).schema is not first.schema


def test_a_dummy_space_tokenizer_at_the_seam():
    tokenizer = published("llama2")
    engine = paper_engine(tiny_llama(vocab_size=len(tokenizer)), tokenizer)
    text = "Hello world, how are you"
    ids = engine.plan(text).token_ids
    assert ids[0] == tokenizer.bos_token_id and ids.count(tokenizer.bos_token_id) == 1
    for at in range(len(text) + 1):
        prefix = engine.prefix(text[:at])
        assert prefix.plan(text[at:]).token_ids == ids
        assert distance(prefix.logits(text[at:]), engine.logits(text)) < 1e-4
