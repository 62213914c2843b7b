"""Chats and sessions compute only what is new."""

from __future__ import annotations

import threading

import pytest

from promptcache import Prompt, PromptCache
from promptcache.errors import PromptCacheError
from promptcache.layout.known import common_prefix
from promptcache.runtime.conversation.chat_memory import ChatMemory
from tests.engine.comparison import byte_engine
from tests.engine.test_counts import HookCount
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

SCHEMA = """<schema name="s"><system>You plan.</system><user>Facts: <module name="a">first fact. </module>
<module name="b">second fact about <parameter name="p" length="8"/>.</module></user></schema>"""
WORDS = ["one", "two and more", "three", "four?", "five", "six"]


@pytest.fixture(params=["segments", "assembled"])
def engine(request) -> PromptCache:
    return paper_engine(tiny_llama(), byte_tokenizer(), attention=request.param)


def test_a_six_turn_chat_computes_only_new_tokens(engine):
    messages = [{"role": "system", "content": "Be kind."}]
    known = ()
    for word in WORDS:
        messages.append({"role": "user", "content": word})
        ids = engine._requests.plan(Prompt(messages=messages), None).token_ids
        with HookCount(engine) as hook:
            done = engine.chat(messages, max_new_tokens=5)
        assert hook.tokens == done.usage.computed_tokens + len(done.token_ids) - 1
        # To the token: the reply's own ids count as far as its text renders to them again.
        assert done.usage.reused_tokens == common_prefix(known, ids)
        assert done.usage.computed_tokens == len(ids) - common_prefix(known, ids)
        stock = engine.generate(Prompt(messages=messages), max_new_tokens=5, reuse=False)
        assert done.token_ids == stock.token_ids and done.exact
        known = (*ids, *done.token_ids[:-1])
        messages.append({"role": "assistant", "content": done.text})
    assert len(engine._chats.memory._chains) >= 1


def test_a_chat_that_branches_reuses_what_is_common(engine):
    messages = [{"role": "user", "content": "a long first question"}]
    engine.chat(messages, max_new_tokens=4)
    other = [{"role": "user", "content": "a long first answer"}]
    done = engine.chat(other, max_new_tokens=4)
    assert done.usage.reused_tokens > len("Be kind. a long first ")
    assert done.token_ids == engine.generate(Prompt(messages=other), max_new_tokens=4, reuse=False).token_ids
    again = engine.chat(messages, max_new_tokens=4)
    assert again.usage.computed_tokens == 1  # the last token, for its logits


def test_the_budget_holds_and_the_least_recently_used_goes_first():
    one = byte_engine()
    one.chat([{"role": "user", "content": "first"}], max_new_tokens=2)
    size = one._chats.memory.num_bytes
    engine = paper_engine(tiny_llama(), byte_tokenizer(), chat_bytes=3 * size)
    for word in ("first", "other", "third", "fifth"):
        # Different from the first token on: nothing is shared.
        engine.chat([{"role": "system", "content": word * 3}, {"role": "user", "content": word}], max_new_tokens=2)
        assert engine._chats.memory.num_bytes <= 3 * size
    tiny = paper_engine(tiny_llama(), byte_tokenizer(), chat_bytes=10)
    assert tiny.chat([{"role": "user", "content": "x"}], max_new_tokens=2).token_ids
    assert tiny._chats.memory.num_bytes == 0


def test_an_abandoned_chat_is_not_remembered(engine):
    stream = iter(engine.chat_stream([{"role": "user", "content": "hello there"}], max_new_tokens=20))
    next(stream)
    del stream
    assert engine._chats.memory.num_bytes == 0


def test_concurrent_chats_do_not_mix(engine):
    conversations = [[{"role": "user", "content": f"number {n} speaks"}] for n in range(6)]
    alone = [engine.generate(Prompt(messages=c), max_new_tokens=6).token_ids for c in conversations]
    found: dict[int, list] = {n: [] for n in range(6)}

    def talk(n):
        for _ in range(3):
            found[n].append(engine.chat(conversations[n], max_new_tokens=6).token_ids)

    threads = [threading.Thread(target=talk, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[n] == [alone[n]] * 3 for n in range(6))


@pytest.mark.parametrize("imports", [["a"], ["a", "b"]])
def test_a_session_behind_a_prompt_computes_only_new_tokens(engine, imports):
    engine.load_schema(SCHEMA)
    arguments = {"b/p": "snow"} if "b" in imports else {}
    session = engine.session(Prompt(schema="s", imports=imports, arguments=arguments, text="What now?"))
    before = 0
    for word in [None, *WORDS[:5]]:
        prompt = session.prompt if word is None else session.prompt.with_turn("user", word)
        whole = engine.plan(prompt)
        with HookCount(engine) as hook:
            done = session.send(word, max_new_tokens=4)
        assert hook.tokens == done.usage.computed_tokens + 3
        assert done.usage.prompt_tokens == whole.num_tokens
        if before:
            # The user's message with its markers, and what of the reply had no state or another spelling.
            assert done.usage.reused_tokens >= before
            assert done.usage.computed_tokens <= whole.num_tokens - before
        assert done.token_ids == engine.generate(prompt, max_new_tokens=4).token_ids
        before = whole.num_tokens


def test_a_session_equals_the_run_without_reuse_where_it_is_exact(engine):
    engine.load_schema(SCHEMA)
    prompt = Prompt(schema="s", text="What now?")
    session, plain = engine.session(prompt), engine.session(prompt)
    for word in (None, "and then?", "go on"):
        assert (
            session.send(word, max_new_tokens=4).token_ids == plain.send(word, max_new_tokens=4, reuse=False).token_ids
        )


def test_a_session_behind_nothing_fresh():
    engine = byte_engine()
    engine.load_schema('<schema name="s"><user>Hi</user><assistant>Hello you</assistant></schema>')
    session = engine.session(Prompt(schema="s"))
    first = session.send(max_new_tokens=3)
    assert first.usage.computed_tokens == first.usage.repaired_tokens == 1


def test_a_session_that_raises_goes_on_from_where_it_was(engine):
    engine.load_schema(SCHEMA)
    session = engine.session(Prompt(schema="s", imports=["a"], text="What now?"))
    session.send(max_new_tokens=3)
    before = session.prompt
    with pytest.raises(PromptCacheError):
        session.send("more", max_new_tokens=0)
    stream = iter(session.stream("more", max_new_tokens=9))
    next(stream)
    del stream
    assert session.prompt == before
    assert (
        session.send("more", max_new_tokens=3).token_ids
        == engine.generate(before.with_turn("user", "more"), max_new_tokens=3).token_ids
    )


def test_memory_of_nothing():
    assert ChatMemory(100).longest((1, 2, 3)).chains == {}
