"""The schemas of the repository, laid out with the default model's tokenizer, as files that a person has read.

`UPDATE_GOLDEN=1 pytest -m model tests/layout/test_golden.py` writes them anew: read the difference before you
commit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from promptcache.layout.borders import border_notes, prompt_border_notes
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.policies.reserved import Reserved
from promptcache.layout.text.tree import Item, ModuleNode, ParameterNode, SegmentNode
from promptcache.models.loading import LoadedModel
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import bind, read_prompt, read_schema

GOLDEN = Path(__file__).parent / "golden"
SCHEMAS = Path(__file__).parents[2] / "schemas"
NAMES = sorted(path.stem for path in SCHEMAS.glob("*.xml"))
SHOWN = 60

Element = dict[str, Any]


def tree_of(layout: SchemaLayout, spell: Callable[[int], str]) -> Element:
    """The layout as plain values: where each element starts and how long it is, those inside it under "inside"."""

    def module(node: ModuleNode) -> Element:
        start = layout.starts[node.path]
        found: Element = {"path": node.path, "kind": "module", "start": start, "length": node.length}
        if not node.cache:
            found["cache"] = False
        return found | {"inside": [element(node, item) for item in node.items]}

    def element(owner: ModuleNode, item: Item) -> Element:
        if isinstance(item, ModuleNode):
            return module(item)
        if isinstance(item, ParameterNode):
            start = layout.parameters[owner.path, item.name]
            return {"path": item.name, "kind": "parameter", "start": start, "length": item.length}
        if isinstance(item, SegmentNode):
            start = layout.segment_starts[item.index]
            text = "".join(piece if isinstance(piece, str) else spell(piece) for piece in item.pieces)
            words = text if len(text) <= SHOWN else text[: SHOWN // 2] + " ... " + text[-SHOWN // 2 :]
            return {"kind": "text", "start": start, "length": item.length, "text": words}
        start = layout.starts[item.members[0].path]
        members = [module(member) for member in item.members]
        return {"kind": "union", "start": start, "length": item.length, "inside": members}

    root = module(layout.tree.root)
    return {"schema": layout.name, "positions": layout.num_positions, "stored": layout.num_tokens} | {
        "inside": root["inside"]
    }


def written(element: Element, indent: str = "") -> str:
    """JSON with one line for each element."""
    facts = {key: value for key, value in element.items() if key != "inside"}
    line = indent + json.dumps(facts, ensure_ascii=False)
    if "inside" not in element:
        return line
    inside = ",\n".join(written(child, indent + "  ") for child in element["inside"])
    return f'{line[:-1]}, "inside": [' + (f"\n{inside}\n{indent}]}}" if inside else "]}")


def lay_out(name: str, tokenizer: HFTokenizer) -> SchemaLayout:
    return Reserved().lay_out(
        read_schema(SCHEMAS / f"{name}.xml"),
        tokenizer,
        encoding="isolated",
        context=KeyContext(model="m", tokenizer="t", dtype="float32"),
        max_positions=8192,
    )


@pytest.mark.model
@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, real_engine_model: LoadedModel) -> None:
    wrapped = real_engine_model.tokenizer
    layout = lay_out(name, HFTokenizer(wrapped))
    text = written(tree_of(layout, wrapped.convert_ids_to_tokens)) + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
    assert json.loads(text)["schema"] == name


@pytest.mark.model
@pytest.mark.parametrize("name", NAMES)
def test_no_token_would_span_a_border(name: str, real_engine_model: LoadedModel) -> None:
    """In the schema, and in each of its prompts."""
    tokenizer = HFTokenizer(real_engine_model.tokenizer)
    layout = lay_out(name, tokenizer)
    assert border_notes(layout, tokenizer) == ()
    for path in sorted((SCHEMAS / f"{name}.prompts").glob("*.xml")):
        texts = Reserved().texts(layout, bind(read_prompt(path), layout.schema), tokenizer)
        assert prompt_border_notes(texts, tokenizer) == ()


def test_each_golden_layout_has_its_schema() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == NAMES
