"""`check` gathers all warnings about a schema or a prompt: of its text, its tokens and its borders."""

from __future__ import annotations

from pathlib import Path

import pytest

from promptcache import PromptCache
from promptcache.errors import PromptError, SchemaError
from tests.cli.commands import call
from tests.paper import paper_engine
from tests.tiny import tiny_llama
from tests.tokenizers import byte_level

SCHEMA = """<schema name="s">
 <union><module name="alone">Yes.</module></union>
 <module name="m">How are <parameter name="p" length="1" scaffold="the dog"/>.</module>
 <module name="n">I am f</module>ine.
</schema>"""


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    return paper_engine(tiny_llama(vocab_size=500), byte_level())


def test_all_warnings_about_a_schema(engine: PromptCache) -> None:
    found = [(note.span.line, note.message) for note in engine.check(SCHEMA) if note.span]
    expected = [(2, "has one member"), (4, "in mid-word"), (3, "is cut to 1"), (4, '"I am f" | "ine."')]
    assert len(found) == len(expected)
    for (line, message), (place, what) in zip(found, expected, strict=True):
        assert line == place and what in message


def test_a_prompt_is_checked_with_its_own_texts(engine: PromptCache) -> None:
    engine.load_schema('<schema name="s"><module name="m">How are y</module></schema>', encode=False, replace=True)
    assert engine.check_prompt('<prompt schema="s"><m/> Hello there!</prompt>') == ()
    [note] = engine.check_prompt('<prompt schema="s">\n<m/>ou?</prompt>')
    assert note.message.startswith('"How are y" | "ou?":')
    assert note.span is not None and (note.span.line, note.span.column) == (2, 5)
    assert engine.check_prompt("How are y") == ()


def test_faults_are_raised(engine: PromptCache) -> None:
    with pytest.raises(SchemaError):
        engine.check('<schema name="s"><module name="m"/><module name="m"/></schema>')
    with pytest.raises(PromptError):
        engine.check_prompt('<prompt schema="never loaded"/>')


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_llama(vocab_size=500).save_pretrained(tmp_path / "model")
    byte_level().save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.xml").write_text('<schema name="s"><module name="m">How are y</module>ou? I am fine y</schema>')
    (tmp_path / "p.xml").write_text('<prompt schema="s"><m/>ou?</prompt>')
    result = call("check", "s.xml", "p.xml", "--model", "./model")
    assert result.exit_code == 0
    words, schema, prompt = result.stdout.splitlines()
    assert words.startswith("s.xml:1:35: warning: ") and "in mid-word" in words
    assert schema.startswith('s.xml:1:53: warning: "How are y" | "ou? I am fin..."')
    assert prompt.startswith('p.xml:1:24: warning: "... I am fine y" | "ou?"')
    assert "0 faults, 3 warnings" in result.stderr
    assert call("check", "s.xml", "--model", "./model", "--strict").exit_code == 1
