"""Keys are equal if and only if all that decides the states is equal."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from promptcache.layout.encodings.key import KeyContext

BASE = KeyContext(model="m", tokenizer="t", dtype="float32")
IDS = st.lists(st.integers(0, 5), max_size=4)
FIELDS = st.tuples(
    st.builds(KeyContext, *(st.sampled_from(["", "a", "b", "ab"]),) * 5),
    IDS.map(tuple),
    st.lists(st.tuples(st.integers(-3, 0), st.integers(0, 3)), max_size=3).map(tuple),
    st.none() | st.integers(0, 3),
)


@given(FIELDS, FIELDS)
def test_equal_fields_and_only_they_give_equal_keys(left, right):
    def key(fields):
        context, ids, saw, start = fields
        return context.key(ids, saw=saw, start=start)

    assert (key(left) == key(right)) == (left == right)


def test_each_field_counts():
    keys = {BASE.key((1, 2), saw=(), start=0)}
    for name in ("model", "tokenizer", "dtype", "codec", "namespace"):
        keys.add(replace(BASE, **{name: "other"}).key((1, 2), saw=(), start=0))
    keys.add(replace(BASE, version=99).key((1, 2), saw=(), start=0))
    keys.add(BASE.key((1, 2), saw=(), start=None))
    keys.add(BASE.key((1, 2), saw=((-1, 7),), start=0))
    assert len(keys) == 9


def test_equal_across_processes():
    code = (
        "from promptcache.layout.encodings.key import KeyContext;"
        "print(KeyContext(model='m', tokenizer='t', dtype='float32').key((1, 2), saw=((-1, 3),), start=4))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert made == {str(BASE.key((1, 2), saw=((-1, 3),), start=4))}
