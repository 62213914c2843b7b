"""Which attention path an engine takes, and that a faulty one is not taken."""

from __future__ import annotations

import pytest

from promptcache import PromptCache
from promptcache.errors import RequestError, UnsupportedModelError
from promptcache.models import attention
from promptcache.runtime import self_check
from tests.engine.comparison import byte_engine
from tests.tiny import byte_tokenizer, tiny_llama


def test_the_segments_path_is_the_default():
    assert byte_engine().attention == "segments"


def test_a_path_that_fails_the_check_is_not_taken(monkeypatch, caplog):
    def keys_too_late(query, tail_key, tail_value, segments, layer, scale):
        views = tuple(type(v)(v.values, v.values, v.first_row) for v in segments.views)
        return attend(query, tail_key, tail_value, type(segments)(views, segments.mask), layer, scale)

    attend = attention.attend_segments
    monkeypatch.setattr(attention, "attend_segments", keys_too_late)
    assert not self_check.segments_path_is_right(byte_engine()._adapter)
    engine = byte_engine()
    assert engine.attention == "assembled"
    assert "fails the check" in caplog.text


def test_families_that_run_eager_keep_their_own():
    model = tiny_llama(attn_implementation="eager")
    assert PromptCache(model, byte_tokenizer()).attention == "assembled"
    assert model.config._attn_implementation == "eager"
    with pytest.raises(UnsupportedModelError, match="assembled"):
        PromptCache(model, byte_tokenizer(), attention="segments")


def test_unknown_names():
    for name in ("attention", "layout", "encoding"):
        with pytest.raises(RequestError, match="unknown"):
            PromptCache(tiny_llama(), byte_tokenizer(), **{name: "flash"})


def test_two_engines_on_one_model():
    model = tiny_llama()
    engines = [PromptCache(model, byte_tokenizer()) for _ in range(2)]
    assert [engine.attention for engine in engines] == ["segments"] * 2
