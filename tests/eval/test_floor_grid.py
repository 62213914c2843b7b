"""What the `floor` suite measures, by its options."""

from __future__ import annotations

import pytest

from eval.config import EvalConfig
from eval.floor.grid import Grid, Variant
from promptcache.errors import RequestError


def _grid(**options: object) -> Grid:
    return Grid.of(EvalConfig("floor", options=options))


def test_the_default_changes_one_thing_at_a_time() -> None:
    settings = {setting.part: setting for setting in _grid().settings(["reserved", "compact"])}
    assert list(settings) == ["512/32", "2048/1", "2048/8", "2048/32", "2048/64", "6144/32"]
    one, assembled = Variant(1, "reserved"), Variant(1, "reserved", "assembled")
    prepacked = Variant(1, "reserved", "prepacked")
    assert settings["512/32"].variants == settings["6144/32"].variants == (one, assembled, prepacked)
    assert settings["2048/8"].variants == (one,)
    every = [Variant(n, layout) for layout in ("reserved", "compact") for n in (1, 8, 64)]
    assert settings["2048/32"].variants == (*every, assembled, prepacked)
    assert [part for part, setting in settings.items() if setting.later] == ["512/32", "2048/32", "6144/32"]


def test_parts_do_not_depend_on_the_layouts_that_there_are() -> None:
    grid = _grid()
    parts = [setting.part for setting in grid.settings(["reserved"])]
    assert parts == [setting.part for setting in grid.settings(["compact"])]
    assert {v.layout for setting in grid.settings(["compact"]) for v in setting.variants} == {"compact"}


def test_full_crosses_everything() -> None:
    settings = _grid(full=True, contexts=[100, 20], fresh=[5], modules=[30, 2, 2]).settings(["reserved"])
    assert [setting.part for setting in settings] == ["20/5", "100/5"]
    # Thirty modules cannot share twenty tokens.
    assert [variant.modules for variant in settings[0].variants] == [2, 2, 2]
    assert [variant.modules for variant in settings[1].variants] == [2, 30, 2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contexts": []}, "contexts is"),
        ({"contexts": 512}, "contexts is 512"),
        ({"fresh": [0]}, "fresh is"),
        ({"modules": [True]}, "modules is"),
        ({"rounds": "many"}, "rounds is"),
        ({"layouts": "compact"}, "layouts is 'compact'"),
        ({"full": 1}, "full is 1"),
    ],
)
def test_wrong_options_are_named(options, message) -> None:
    with pytest.raises(RequestError, match=message):
        _grid(**options)
