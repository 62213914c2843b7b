"""What a prompt does not import leaves no trace; what it imports does."""

from __future__ import annotations

import torch

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
