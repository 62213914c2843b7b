"""Any schema can be written as XML and read again."""

from __future__ import annotations

from hypothesis import given

from promptcache.pml import Schema, parse_schema
from tests.strategies import schemas


@given(schemas())
def test_a_schema_written_out_parses_to_itself(schema: Schema) -> None:
    parsed = parse_schema(schema.to_xml())
    assert parsed == schema
    assert parsed.to_xml() == schema.to_xml()


@given(schemas())
def test_the_canonical_form_is_stable(schema: Schema) -> None:
    assert Schema(schema.name, schema.children, schema.scaffolds) == schema


@given(schemas())
def test_paths_are_unique_and_found(schema: Schema) -> None:
    paths = dict(schema.walk_modules())
    assert len(paths) == len(list(schema.walk_modules()))
    assert all(schema.module(path) == module for path, module in paths.items())
