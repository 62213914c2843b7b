"""The compact layout against the oracle: order, repeats, arguments shorter than their place, moves far and near."""

from __future__ import annotations

from random import Random

import pytest
import torch

from promptcache import Schema
from promptcache.errors import LayoutError
from promptcache.pml import Prompt
from promptcache.runtime.states import segmented
from tests.engine.comparison import agrees, byte_engine, distance
from tests.oracle import Token, full_prefill_logits, next_token_logits, tokens
from tests.paper import paper_engine
from tests.tiny import BOS, UNK, byte_tokenizer, tiny_llama


def stored(text: str, at: int, group: str, *, saw: tuple[int, ...] = ()) -> list[Token]:
    """A stored segment used at `at`, and ghosts of what it saw when it was encoded, as far before it as then."""
    return [*tokens(saw, at - len(saw), group, ghost=True), *tokens(text.encode(), at, group)]


TWO = '<schema name="s"><module name="a">abcde</module><module name="b">xyz</module></schema>'


def test_the_other_order():
    given = [*stored("xyz", 0, "b"), *stored("abcde", 3, "a"), *tokens(b"why?", 8)]
    agrees(byte_engine(layout="compact"), TWO, '<prompt schema="s"><b/><a/>why?</prompt>', given)


def test_a_module_twice_with_new_text_between():
    given = [*stored("abcde", 0, "1"), *tokens(b"--", 5), *stored("abcde", 7, "2"), *tokens(b"?", 12)]
    agrees(byte_engine(layout="compact"), TWO, '<prompt schema="s"><a/>--<a/>?</prompt>', given)


def test_what_stands_behind_a_short_argument_saw_the_whole_placeholder():
    schema = '<schema name="s"><module name="a">ab<parameter name="p" length="4"/>cd</module></schema>'
    saw = (*b"ab", *[UNK] * 4)
    given = [*stored("ab", 0, "1"), *tokens(b"!", 2), *stored("cd", 3, "2", saw=saw), *tokens(b"?", 5)]
    agrees(byte_engine(layout="compact"), schema, '<prompt schema="s"><a p="!"/>?</prompt>', given)


def test_bos_was_seen_where_the_module_was_encoded():
    given = [
        Token(BOS, 0, "text"),
        *stored("xyz", 1, "b", saw=(BOS,)),
        *stored("abcde", 4, "a", saw=(BOS,)),
        *tokens(b"?", 9),
    ]
    agrees(byte_engine(layout="compact", bos=True), TWO, '<prompt schema="s"><b/><a/>?</prompt>', given)


def test_a_prompt_that_ends_in_a_stored_token():
    given = [*stored("xyz", 0, "b"), *stored("abcd", 3, "a"), *tokens(b"e", 7)]
    agrees(byte_engine(layout="compact"), TWO, '<prompt schema="s"><b/><a/></prompt>', given)


MOVED = "the moved module is as long as it must be to be heard" * 8


@pytest.mark.parametrize("shift", [1, 100, 1000, 4000])
def test_a_module_far_from_where_it_was_encoded(shift: int):
    filler = "".join(Random(shift).choices("abcdefgh", k=shift))
    schema = f'<schema name="s"><module name="f">{filler}</module><module name="a">{MOVED}</module></schema>'
    given = [*stored(filler, 0, "f"), *stored(MOVED, shift, "a"), *tokens(b"?!", shift + len(MOVED))]
    engine = byte_engine(layout="compact", max_position_embeddings=8192)
    agrees(engine, schema, '<prompt schema="s"><f/><a/>?!</prompt>', given)


class ExactAngles(torch.nn.Module):
    """A rotary embedding whose angles are computed in float64, so that a move of any distance is exact."""

    def __init__(self, stock: torch.nn.Module) -> None:
        super().__init__()
        self.register_buffer("inv_freq", stock.inv_freq.clone())

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = position_ids[..., None].double() * self.inv_freq.double()
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


@pytest.mark.parametrize("shift", [1, 100, 1000, 4000])
def test_with_exact_angles_a_move_costs_nothing(shift: int):
    model = tiny_llama(max_position_embeddings=8192)
    model.model.rotary_emb = ExactAngles(model.model.rotary_emb)
    filler = "".join(Random(shift).choices("abcdefgh", k=shift))
    schema = f'<schema name="s"><module name="f">{filler}</module><module name="a">{MOVED}</module></schema>'
    given = [*stored(filler, 0, "f"), *stored(MOVED, shift, "a"), *tokens(b"?!", shift + len(MOVED))]
    expected = next_token_logits(model, given)
    for attention in ("segments", "assembled"):
        engine = paper_engine(model, byte_tokenizer(), layout="compact", attention=attention)
        engine.load_schema(schema)
        assert distance(engine.logits('<prompt schema="s"><f/><a/>?!</prompt>'), expected) < 1e-4


@pytest.mark.parametrize("seed", range(40))
def test_random_orders_repeats_and_arguments(seed: int):
    random = Random(seed)

    def word(least: int = 1) -> str:
        return "".join(random.choices("abcdefgh", k=random.randint(least, 6)))

    parts: list[tuple[str, str, int, str]] = []  # name, text, parameter's length, text behind it
    for number in range(random.randint(1, 4)):
        length = random.choice([0, 0, 3, 5])
        parts.append((f"m{number}", word(), length, word() if length else ""))
    fence, front = random.choice(["", word()]), random.choice(["", word()])
    split = random.randint(0, len(parts))

    def module(name: str, text: str, length: int, more: str) -> str:
        inner = f'{text}<parameter name="p" length="{length}"/>{more}' if length else text
        return f'<module name="{name}">{inner}</module>'

    xml = "".join(module(*part) for part in parts[:split]) + fence + "".join(module(*part) for part in parts[split:])
    schema = f'<schema name="s">{front}{xml}</schema>'
    given = tokens(front.encode(), 0, "text")
    prompt, at = "", len(front)
    # The schema's own text is one pass: what is behind the first part of it saw that.
    for number, stretch in enumerate((parts[:split], parts[split:])):
        if number and fence:
            joined = not parts[:split]
            saw = () if joined else tuple(front.encode())
            given += tokens(fence.encode(), at, "text") if joined else stored(fence, at, "text2", saw=saw)
            at += len(fence)
        for use in range(random.randint(0, 4) if stretch else 0):
            name, text, length, more = random.choice(stretch)
            group = f"{number}{use}"
            given += stored(text, at, group)
            at += len(text)
            argument = word()[:length] if length and random.random() < 0.7 else ""
            prompt += f'<{name} p="{argument}"/>' if argument else f"<{name}/>"
            given += tokens(argument.encode(), at)
            at += len(argument)
            if length:
                given += stored(more, at, f"{group}+", saw=(*text.encode(), *[UNK] * length))
                at += len(more)
    given += tokens(b"?", at)
    engine = byte_engine(layout="compact")
    engine.load_schema(schema)
    asked = f'<prompt schema="s">{prompt}?</prompt>'
    plan = engine.plan(asked)
    assert list(plan.token_ids) == [t.id for t in sorted((t for t in given if not t.ghost), key=lambda t: t.position)]
    expected = next_token_logits(engine.model, given)
    assert distance(engine.logits(asked), expected) < 5e-4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented, "GATHERED_TOKENS", 0)
        assert distance(engine.logits(asked), expected) < 5e-4


def test_decoding_behind_moved_modules_equals_a_full_cache():
    engine = byte_engine(layout="compact")
    engine.load_schema(TWO)
    prompt = '<prompt schema="s"><b/><a/><b/>go on</prompt>'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented, "GATHERED_TOKENS", 0)
        done = engine.generate(prompt, max_new_tokens=8)
    assert len(done.token_ids) == 8
    groups = [*stored("xyz", 0, "1"), *stored("abcde", 3, "2"), *stored("xyz", 8, "3"), *tokens(b"go on", 11)]
    for token in done.token_ids:
        assert int(next_token_logits(engine.model, groups).argmax()) == token
        groups += tokens([token], max(t.position for t in groups) + 1)
    arguments = engine.prepare(prompt)
    found = engine.model.generate(**arguments, max_new_tokens=8, do_sample=False)
    assert found[0, 16:].tolist()[: len(done.token_ids)] == list(done.token_ids)


def test_stored_blocks_do_not_change_by_a_bit():
    engine = byte_engine(layout="compact")
    layout = engine.load_schema(TWO).layout
    blocks = [engine.store.get(segment.key) for segment in layout.segments.values()]
    before = [[t.clone() for t in (*block.keys, *block.values)] for block in blocks]
    for gathered in (0, 256):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segmented, "GATHERED_TOKENS", gathered)
            engine.generate('<prompt schema="s"><b/><a/><b/>go</prompt>', max_new_tokens=4)
    for block, old in zip(blocks, before, strict=True):
        assert all(map(torch.equal, (*block.keys, *block.values), old))


def test_schemas_that_share_a_text_share_its_state_in_compact_and_not_in_reserved():
    schemas = [
        Schema.from_modules({"other": "o" * length, "shared": "the same text"}, name=f"s{length}", separator="")
        for length in (3, 9)
    ]
    for layout, kept in (("compact", 1), ("reserved", 2)):
        engine = byte_engine(layout=layout)
        loaded = [engine.load_schema(schema) for schema in schemas]
        keys = {s.key for each in loaded for s in each.layout.segments.values() if s.owner == "shared"}
        assert len(keys) == kept
        assert (loaded[1].encoded_tokens == 9) is (layout == "compact")


def test_forty_documents_five_times_the_models_positions():
    random = Random(1)
    documents = {f"d{n}": "".join(random.choices("abcdefgh ", k=60)) for n in range(40)}
    schema = Schema.from_modules(documents, name="library", separator="")
    engine = byte_engine(layout="compact", max_position_embeddings=480)
    with pytest.raises(LayoutError, match="2400 positions and the model has 480") as caught:
        engine.load_schema(schema, layout="reserved")
    assert "compact" in str(caught.value.hint)
    engine.load_schema(schema)
    for _ in range(4):
        chosen = random.sample(sorted(documents), k=5)
        prompt = Prompt(schema="library", imports=chosen, text="which?")
        given = [t for n, name in enumerate(chosen) for t in stored(documents[name], 60 * n, str(n))]
        given += tokens(b"which?", 300)
        expected = next_token_logits(engine.model, given)
        plain = full_prefill_logits(engine.model, [t.id for t in given], [t.position for t in given])[-1]
        assert distance(engine.logits(prompt), expected) < 1e-3 < distance(expected, plain)
