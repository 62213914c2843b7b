"""What every segment of random schemas saw, by a second, flat reading of the language."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptcache.layout.encodings.encoding import Segment
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.policies.policy import policy
from promptcache.layout.text.tree import ModuleNode, ParameterNode, SegmentNode
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import Schema, bind, parse_schema
from tests.strategies import prompts, schemas
from tests.tiny import byte_tokenizer

CONTEXT = KeyContext(model="m", tokenizer="t", dtype="float32")
BYTES = HFTokenizer(byte_tokenizer())

quick = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60, derandomize=True)


@dataclass(frozen=True)
class Entry:
    """One piece of a schema. `stand_ins` are the unions (their parent and start) for which its module stands in,
    the innermost last; `unions` those inside which it stands."""

    position: int
    ids: tuple[int, ...]
    owner: str
    node: SegmentNode | None
    stand_ins: tuple[tuple[str, int], ...]
    unions: tuple[tuple[str, int], ...]


def flat(layout: SchemaLayout) -> list[Entry]:
    entries: list[Entry] = []

    def visit(module: ModuleNode, position: int, stand_ins: tuple, unions: tuple) -> None:
        for item in module.items:
            if isinstance(item, SegmentNode):
                entries.append(Entry(position, item.ids, module.path, item, stand_ins, unions))
            elif isinstance(item, ParameterNode):
                entries.append(Entry(position, item.placeholder, module.path, None, stand_ins, unions))
            elif isinstance(item, ModuleNode):
                visit(item, position, (), unions)
            else:
                union = (module.path, position)
                for member in item.members:
                    named = member.path.split("/")[-1] == item.scaffold
                    visit(member, position, (*stand_ins, union) if named else (), (*unions, union))
            position += item.length

    visit(layout.tree.root, 0, (), ())
    return entries


def contains(outer: str, inner: str) -> bool:
    return outer in ("", inner) or inner.startswith(f"{outer}/")


def seen_by_anchored(entries: list[Entry], reader: Entry) -> list[tuple[int, int]]:
    def seen(entry: Entry) -> bool:
        if entry.position >= reader.position:
            return False
        if contains(entry.owner, reader.owner):
            return True
        return any(
            contains(parent, reader.owner) and (parent, start) not in reader.unions for parent, start in entry.stand_ins
        )

    return sorted((entry.position + n, token) for entry in entries if seen(entry) for n, token in enumerate(entry.ids))


def seen_by_scaffold(entries: list[Entry], modules: tuple[str, ...], reader: Entry) -> list[tuple[int, int]]:
    around = {path.rsplit("/", n)[0] for path in modules for n in range(path.count("/") + 1)} | {""}
    return sorted(
        (entry.position + n, token)
        for entry in entries
        if entry.owner in around and entry.position < reader.position
        for n, token in enumerate(entry.ids)
    )


def actually_seen(layout: SchemaLayout, segment: Segment) -> list[tuple[int, int]]:
    made = layout.passes[segment.encoding_pass]
    assert all(left < right for left, right in pairwise(made.positions))
    end = segment.offset + segment.length
    assert made.ids[segment.offset : end] == segment.ids
    assert made.positions[segment.offset : end] == tuple(range(segment.start, segment.end))
    return list(zip(made.positions[: segment.offset], made.ids[: segment.offset], strict=True))


@quick
@given(schema=schemas(odd=False))
def test_anchored(schema: Schema) -> None:
    layout = policy("reserved").lay_out(schema, BYTES, encoding="anchored", context=CONTEXT, max_positions=None)
    entries = flat(layout)
    for entry in entries:
        if entry.node is not None and entry.node.index in layout.segments:
            segment = layout.segments[entry.node.index]
            assert actually_seen(layout, segment) == seen_by_anchored(entries, entry)


@quick
@given(schema=schemas(odd=False), encoding=st.sampled_from(["isolated", "anchored"]))
def test_scaffolds(schema: Schema, encoding: str) -> None:
    layout = policy("reserved").lay_out(schema, BYTES, encoding=encoding, context=CONTEXT, max_positions=None)
    entries = flat(layout)
    nodes = {entry.node.index: entry for entry in entries if entry.node is not None}
    for scaffold in layout.scaffolds:
        listed = [index for index, entry in nodes.items() if entry.owner in scaffold.modules]
        assert set(listed) <= set(scaffold.segments)
        for index, segment in scaffold.segments.items():
            assert actually_seen(layout, segment) == seen_by_scaffold(entries, scaffold.modules, nodes[index])


@quick
@given(data=st.data())
def test_joint_states_serve_only_prompts_that_import_all_members(data: st.DataObject) -> None:
    schema = data.draw(schemas(odd=False, turns=False))
    prompt = bind(data.draw(prompts(schema, messages=False)), schema)
    layout = policy("reserved").lay_out(schema, BYTES, encoding="isolated", context=CONTEXT, max_positions=None)
    plan = policy("reserved").plan(layout, prompt, BYTES, max_positions=None)
    imported = {item.path for item in prompt.imports()}
    used = {run.segment.encoding_pass for run in plan.runs if run.segment}
    first = min((s.encoding_pass for each in layout.scaffolds for s in each.segments.values()), default=None)
    for scaffold in layout.scaffolds:
        (number,) = {segment.encoding_pass for segment in scaffold.segments.values()}
        if number in used:
            assert set(scaffold.modules) <= imported
    fitting = [each for each in layout.scaffolds if set(each.modules) <= imported and each.num_tokens > 1]
    if fitting and first is not None:
        assert max(used) >= first, "one of them must have won"


def lay_out(text: str, encoding: str) -> SchemaLayout:
    return policy("reserved").lay_out(parse_schema(text), BYTES, encoding=encoding, context=CONTEXT, max_positions=None)


SCHEMA = (
    '<schema name="s">Intro<module name="a">aaaa</module><module name="b">bbbb</module>'
    '<module name="c">cccc</module><scaffold modules="a b"/></schema>'
)


@pytest.mark.parametrize("encoding", ["isolated", "anchored"])
def test_another_modules_text_changes_joint_states_only(encoding: str) -> None:
    one, other = lay_out(SCHEMA, encoding), lay_out(SCHEMA.replace("aaaa", "aXaa"), encoding)
    keys = [{segment.owner: segment.key for segment in layout.segments.values()} for layout in (one, other)]
    assert {owner for owner in keys[0] if keys[0][owner] != keys[1][owner]} == {"a"}
    joint = [{s.owner: s.key for s in layout.scaffolds[0].segments.values()} for layout in (one, other)]
    assert joint[0]["b"] != joint[1]["b"] and set(joint[0]) == {"a", "b"}
    assert joint[0]["b"] != keys[0]["b"]


def test_what_was_seen_is_in_the_key() -> None:
    isolated, anchored = lay_out(SCHEMA, "isolated"), lay_out(SCHEMA, "anchored")
    for index, segment in isolated.segments.items():
        same = segment.owner == ""
        assert (anchored.segments[index].key == segment.key) is same
    assert len(isolated.stored) == 4 + 2
    assert isolated.num_tokens == sum(len(s.ids) for s in isolated.stored) == 5 + 3 * 4 + 2 * 4


def test_passes_end_behind_what_is_stored() -> None:
    layout = lay_out(
        '<schema name="s"><module name="a">a<parameter name="p" length="9"/></module></schema>', "anchored"
    )
    assert [made.ids for made in layout.passes] == [(97,)]
    joined = lay_out(SCHEMA, "isolated").passes[-1]
    assert bytes(joined.ids) == b"Introaaaabbbb"
    assert list(chain(joined.positions)) == list(range(13))
