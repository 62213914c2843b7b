"""Reuse equals the oracle: ids, positions and visibility written out by hand, token by token, from the language.

A row is (id, position, pass, what it sees); column j of its pattern is row j. Ids are bytes. `~` marks a ghost: a
placeholder that its pass saw while being encoded. NEW is what the request computes.
"""

from __future__ import annotations

import pytest

from promptcache import PromptCache
from tests.engine.comparison import agrees, byte_engine
from tests.oracle import FRESH as NEW
from tests.oracle import Token

UNK, BOS = 256, 257
Row = tuple[int, int, str, str]


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    return byte_engine()


def check(engine: PromptCache, schema: str, prompt: str, rows: list[Row], *, exact: bool = False) -> None:
    given = [Token(i, p, group.lstrip("~"), group.startswith("~")) for i, p, group, _ in rows]
    patterns = {token: pattern for token, (*_, pattern) in zip(given, rows, strict=True)}
    assert all(len(pattern) == len(rows) for pattern in patterns.values())
    agrees(engine, schema, prompt, given, lambda q, k: patterns[q][given.index(k)] == "x", exact=exact)


def test_one_module(engine):
    check(
        engine,
        '<schema name="s"><module name="a">abc</module></schema>',
        '<prompt schema="s"><a/>?!</prompt>',
        [
            (97, 0, "a", "x...."),
            (98, 1, "a", "xx..."),
            (99, 2, "a", "xxx.."),
            (63, 3, NEW, "xxxx."),
            (33, 4, NEW, "xxxxx"),
        ],
        exact=True,
    )


def test_two_modules_with_a_gap(engine):
    check(
        engine,
        '<schema name="s"><module name="a">ab</module><module name="b">----</module>'
        '<module name="c">cd</module></schema>',
        '<prompt schema="s"><a/><c/>?</prompt>',
        [
            (97, 0, "a", "x...."),
            (98, 1, "a", "xx..."),
            (99, 6, "c", "..x.."),
            (100, 7, "c", "..xx."),
            (63, 8, NEW, "xxxxx"),
        ],
    )


def test_nested(engine):
    schema = '<schema name="s"><module name="a">ab<module name="n">cd</module>ef</module></schema>'
    check(
        engine,
        schema,
        '<prompt schema="s"><a><n/></a>?</prompt>',
        [
            (97, 0, "a", "x......"),
            (98, 1, "a", "xx....."),
            (99, 2, "n", "..x...."),
            (100, 3, "n", "..xx..."),
            (101, 4, "a", "xx..x.."),
            (102, 5, "a", "xx..xx."),
            (63, 6, NEW, "xxxxxxx"),
        ],
    )
    check(
        engine,
        schema,
        '<prompt schema="s"><a/>?</prompt>',
        [
            (97, 0, "a", "x...."),
            (98, 1, "a", "xx..."),
            (101, 4, "a", "xxx.."),
            (102, 5, "a", "xxxx."),
            (63, 6, NEW, "xxxxx"),
        ],
        exact=True,
    )


def test_a_union_member_shorter_than_its_union(engine):
    check(
        engine,
        '<schema name="s"><union><module name="x">xy</module><module name="y">12345</module></union>'
        '<module name="c">cd</module></schema>',
        '<prompt schema="s"><x/><c/>?</prompt>',
        [
            (120, 0, "x", "x...."),
            (121, 1, "x", "xx..."),
            (99, 5, "c", "..x.."),
            (100, 6, "c", "..xx."),
            (63, 7, NEW, "xxxxx"),
        ],
    )


SPEED = '<schema name="s"><module name="go">go <parameter name="how" length="4" scaffold="up"/>!</module></schema>'


def test_an_argument_shorter_than_its_parameter(engine):
    # the space before the parameter is the argument's, and the scaffold's while encoding
    check(
        engine,
        SPEED,
        '<prompt schema="s"><go how="N"/>?</prompt>',
        [
            (103, 0, "go", "x........."),
            (111, 1, "go", "xx........"),
            (32, 2, "~go", "xxx......."),
            (117, 3, "~go", "xxxx......"),
            (112, 4, "~go", "xxxxx....."),
            (UNK, 5, "~go", "xxxxxx...."),
            (33, 6, "go", "xxxxxxx..."),
            (32, 2, NEW, "xx.....x.."),
            (78, 3, NEW, "xx.....xx."),
            (63, 7, NEW, "xx....xxxx"),
        ],
    )


def test_an_argument_equal_to_its_parameter(engine):
    check(
        engine,
        SPEED,
        '<prompt schema="s"><go how="now"/></prompt>',
        [
            (103, 0, "go", "x.........."),
            (111, 1, "go", "xx........."),
            (32, 2, "~go", "xxx........"),
            (117, 3, "~go", "xxxx......."),
            (112, 4, "~go", "xxxxx......"),
            (UNK, 5, "~go", "xxxxxx....."),
            # nothing follows: the last stored token is computed again, and sees the argument, not the placeholders
            (33, 6, NEW, "xx....xxxxx"),
            (32, 2, NEW, "xx.....x..."),
            (110, 3, NEW, "xx.....xx.."),
            (111, 4, NEW, "xx.....xxx."),
            (119, 5, NEW, "xx.....xxxx"),
        ],
        exact=True,
    )


def test_a_missing_argument(engine):
    check(
        engine,
        SPEED,
        '<prompt schema="s"><go/>?</prompt>',
        [
            (103, 0, "go", "x......."),
            (111, 1, "go", "xx......"),
            (32, 2, "~go", "xxx....."),
            (117, 3, "~go", "xxxx...."),
            (112, 4, "~go", "xxxxx..."),
            (UNK, 5, "~go", "xxxxxx.."),
            (33, 6, "go", "xxxxxxx."),
            (63, 7, NEW, "xx....xx"),
        ],
    )


def test_new_text_before_between_and_behind(engine):
    # "1" and "23" stand in the rooms of the skipped a and c
    check(
        engine,
        '<schema name="s"><module name="a">aaa</module><module name="b">bb</module>'
        '<module name="c">ccc</module><module name="d">dd</module></schema>',
        '<prompt schema="s">1<b/>23<d/>4</prompt>',
        [
            (49, 0, NEW, "x......."),
            (98, 3, "b", ".x......"),
            (98, 4, "b", ".xx....."),
            (50, 5, NEW, "xxxx...."),
            (51, 6, NEW, "xxxxx..."),
            (100, 8, "d", ".....x.."),
            (100, 9, "d", ".....xx."),
            (52, 10, NEW, "xxxxxxxx"),
        ],
    )


@pytest.mark.parametrize("imports", ['<a p="1"/><b q="2"/>', '<b q="2"/><a p="1"/>'])
def test_arguments_at_two_places(engine, imports):
    check(
        engine,
        '<schema name="s"><module name="a">a<parameter name="p" length="2"/>A</module>'
        '<module name="b">b<parameter name="q" length="1"/>B</module></schema>',
        f'<prompt schema="s">{imports}?</prompt>',
        [
            (97, 0, "a", "x........."),
            (UNK, 1, "~a", "xx........"),
            (UNK, 2, "~a", "xxx......."),
            (49, 1, NEW, "x..x......"),
            (65, 3, "a", "xxx.x....."),
            (98, 4, "b", ".....x...."),
            (UNK, 5, "~b", ".....xx..."),
            (50, 5, NEW, "x..xxx.x.."),
            (66, 6, "b", ".....xx.x."),
            (63, 7, NEW, "x..xxx.xxx"),
        ],
    )


def test_nothing_fresh(engine):
    check(
        engine,
        '<schema name="s"><module name="a">ab</module><module name="b">cd</module></schema>',
        '<prompt schema="s"><a/><b/></prompt>',
        [
            (97, 0, "a", "x..."),
            (98, 1, "a", "xx.."),
            (99, 2, "b", "..x."),
            (100, 3, NEW, "xxxx"),
        ],
    )


def test_uncached_text_sees_what_is_before_it_and_is_unseen_by_what_is_stored(engine):
    check(
        engine,
        '<schema name="s"><module name="a">ab</module><module name="live" cache="false">12</module>'
        '<module name="b">cd</module></schema>',
        '<prompt schema="s"><a/><live/><b/>?</prompt>',
        [
            (97, 0, "a", "x......"),
            (98, 1, "a", "xx....."),
            (49, 2, NEW, "xxx...."),
            (50, 3, NEW, "xxxx..."),
            (99, 4, "b", "....x.."),
            (100, 5, "b", "....xx."),
            (63, 6, NEW, "xxxxxxx"),
        ],
    )


def test_beginning_of_sequence_once_and_in_view_of_modules_without_text_before_them():
    check(
        byte_engine(bos=True),
        '<schema name="s"><module name="a">ab</module><module name="b">cd</module>-'
        '<module name="c">ef</module></schema>',
        '<prompt schema="s"><a/><b/><c/>?</prompt>',
        [
            (BOS, 0, "text", "x........"),
            (97, 1, "a", "xx......."),
            (98, 2, "a", "xxx......"),
            (99, 3, "b", "x..x....."),
            (100, 4, "b", "x..xx...."),
            (45, 5, "text", "x....x..."),
            (101, 6, "c", "......x.."),
            (102, 7, "c", "......xx."),
            (63, 8, NEW, "xxxxxxxxx"),
        ],
    )
