"""What a prompt does not import leaves no trace; what it imports does."""

from __future__ import annotations

import pytest
import torch

from promptcache import PromptCache
from tests.engine.comparison import byte_engine, distance

SCHEMA = """<schema name="s">Intro. <module name="a">first module.</module><module name="b">second module.</module>
<union><module name="c">one</module><module name="d">two, longer</module></union></schema>"""
PROMPT = '<prompt schema="s"><a/><c/>What?</prompt>'


def test_one_token_of_an_unselected_and_of_a_selected_module():
    engine = byte_engine()
    engine.load_schema(SCHEMA)
    before = engine.logits(PROMPT)
    for unselected in ("second module", "two, longer"):
        engine.load_schema(SCHEMA.replace(unselected, "X" + unselected[1:]), replace=True)
        assert torch.equal(engine.logits(PROMPT), before)
    for selected in ("Intro", "first module", "one<"):
        engine.load_schema(SCHEMA.replace(selected, "X" + selected[1:]), replace=True)
        assert distance(engine.logits(PROMPT), before) > 1e-2


def test_exact_is_told_truly():
    engine = byte_engine()
    engine.load_schema(
        '<schema name="s"><module name="a">first module.</module><module name="b">second.</module></schema>'
    )
    assert engine.generate('<prompt schema="s"><a/>?</prompt>', max_new_tokens=1).exact
    assert engine.generate("plain", max_new_tokens=1).exact
    assert not engine.generate('<prompt schema="s"><a/><b/>?</prompt>', max_new_tokens=1).exact
    assert engine.generate('<prompt schema="s"><a/><b/>?</prompt>', max_new_tokens=1, reuse=False).exact


@pytest.mark.parametrize("encoding", ["isolated", "anchored"])
def test_another_modules_text_leaves_stored_states_alone(encoding):
    def states(text: str) -> dict[str, list[torch.Tensor]]:
        engine = byte_engine(encoding=encoding)
        engine.load_schema(text)
        return {segment.owner: blocks(engine, segment.key) for segment in engine.schemas["s"].layout.segments.values()}

    def blocks(engine: PromptCache, key) -> list[torch.Tensor]:
        block = engine.store.get(key)
        assert block is not None
        return [tensor.clone() for tensor in (*block.keys, *block.values)]

    before, after = states(SCHEMA), states(SCHEMA.replace("first module", "Xirst module"))
    same = {owner for owner in before if all(map(torch.equal, before[owner], after[owner]))}
    assert same == before.keys() - {"a"}


def test_a_scaffold_changes_its_members_only_while_all_are_there():
    engine = byte_engine()
    joint = SCHEMA.replace("</schema>", '<scaffold modules="a b"/></schema>')
    prompts = [f'<prompt schema="s">{imports}<c/>What?</prompt>' for imports in ("<a/>", "<b/>", "<a/><b/>")]
    found = []
    for text in (SCHEMA, joint, joint.replace("first module", "Xirst module")):
        engine.load_schema(text, replace=True)
        found.append([engine.logits(prompt) for prompt in prompts])
    single, together, other = found
    assert torch.equal(single[0], together[0]) and torch.equal(single[1], together[1])
    assert distance(single[2], together[2]) > 1e-2
    assert torch.equal(together[1], other[1]), "what is not imported leaves no trace"
    assert distance(together[2], other[2]) > 1e-2
