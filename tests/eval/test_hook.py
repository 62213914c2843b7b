"""The hook sees every pass, and what it was not told to expect ends the run."""

from __future__ import annotations

import pytest
import torch

from eval.hook import MeasurementError, TokenHook
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama


def test_it_counts_each_pass_and_lets_go() -> None:
    model = tiny_llama()
    with TokenHook(model) as hook:
        with torch.no_grad():
            model(torch.tensor([[1, 2, 3]]))
            model(input_ids=torch.tensor([[1, 2], [3, 4]]))
            model.generate(torch.tensor([[1, 2]]), max_new_tokens=3, do_sample=False, pad_token_id=0)
        assert hook.passes == [3, 4, 2, 1, 1]
    with torch.no_grad():
        model(torch.tensor([[1]]))
    assert hook.passes == [3, 4, 2, 1, 1]


def test_what_was_expected_is_counted_from_there_on() -> None:
    engine = paper_engine(tiny_llama(), byte_tokenizer())
    with TokenHook(engine.model) as hook:
        engine.logits("four")
        hook.expect("reuse", [4])
        hook.expect("nothing more", [])
        engine.generate("abc", max_new_tokens=2)
        with pytest.raises(MeasurementError, match=r"side: passes of \[4, 1\].*\[3, 1\] \(2, together 4\) were run"):
            hook.expect("side", [4, 1])


def test_it_lets_go_when_the_work_fails() -> None:
    model = tiny_llama()
    with pytest.raises(KeyError), TokenHook(model):
        raise KeyError
    assert not model.get_input_embeddings()._forward_hooks
