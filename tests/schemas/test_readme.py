"""What schemas/README.md shows, is true."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from promptcache.errors import PromptError
from promptcache.pml import Schema, bind, parse_prompt, parse_schema, read_schema
from promptcache.source import Source
from tests.paper import paper_engine
from tests.schemas.repository import SCHEMAS

if TYPE_CHECKING:
    from promptcache.models.loading import LoadedModel

README = (SCHEMAS / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def schemas(tmp_path: Path) -> dict[str, Schema]:
    """The repository's schemas, and those that the README shows."""
    (tmp_path / "checks.py").write_text("def check():\n    pass\n", encoding="utf-8")
    shown = [parse_schema(block, folder=tmp_path) for block in blocks("xml") if block.startswith("<schema")]
    assert len(shown) >= 3
    return {schema.name: schema for schema in [*map(read_schema, SCHEMAS.glob("*.xml")), *shown]}


def test_every_schema_and_prompt_is_one(schemas: dict[str, Schema]) -> None:
    assert all(schema.notes == () for schema in schemas.values())
    prompts = [parse_prompt(block) for block in blocks("xml") if not block.startswith("<schema")]
    assert len(prompts) >= 3
    for prompt in prompts:
        assert prompt.schema is not None
        assert bind(prompt, schemas[prompt.schema]).notes == ()


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_runs(
    number: int, tmp_path: Path, schemas: dict[str, Schema], capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(blocks("python")[number], encoding="utf-8")
    names = runpy.run_path(str(script))
    prompt = names.get("prompt")
    if prompt is not None:
        own = names["cafe"].schema if "cafe" in names else schemas[prompt.schema]
        assert bind(prompt, own).notes == ()
    assert ("print(" in blocks("python")[number]) == bool(capsys.readouterr().out)


def test_links_lead_to_headings() -> None:
    headings = re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#(.+?)\)", README)) <= anchors


def test_files_that_are_named_exist() -> None:
    for path in re.findall(r"schemas/[\w.-]+(?:/[\w.-]+)*\.(?:xml|py)", README):
        assert (SCHEMAS.parent / path).is_file(), path


def test_the_error_that_is_shown(schemas: dict[str, Schema]) -> None:
    text = '<prompt schema="trip">\n  <sereno><beeches/></sereno>\n</prompt>'
    with pytest.raises(PromptError) as raised:
        bind(parse_prompt(Source("beach.xml", text)), schemas["trip"])
    assert f"{raised.value}\n" == blocks("text")[0]


@pytest.mark.model
def test_the_examples_of_warnings_warn(real_engine_model: LoadedModel) -> None:

    engine = paper_engine(real_engine_model.model, real_engine_model.tokenizer)
    rows = re.findall(r"^\| ([^|]+) \| `(<module.*|<union.*|Hello.*)` \|$", README, re.MULTILINE)
    assert len(rows) == 5
    expected = ["in mid-word", "a lone space", "has one member", "is cut to", "outside of the turns"]
    for (_, example), words in zip(rows, expected, strict=True):
        (note,) = engine.lay_out(f'<schema name="a">{example}</schema>').notes
        assert words in note.message


@pytest.mark.model
@pytest.mark.parametrize("line", [line.removeprefix("$ ") for line in blocks("console")[0].splitlines()])
def test_commands(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from promptcache.cli import app

    monkeypatch.chdir(SCHEMAS.parent)
    program, command, *patterns = shlex.split(line)
    assert program == "promptcache"
    arguments = [str(path) for word in patterns for path in (sorted(Path().glob(word)) or [Path(word)])]
    done = CliRunner().invoke(app, [command, *arguments])
    assert done.exit_code == 0, done.output
    assert "warning" not in done.stdout
