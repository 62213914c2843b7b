"""Divergence of predictions, against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from eval.fidelity import compare, kl_divergence, negative_log_likelihood, top1_agreement


def _logits(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).log().float()


def test_kl_of_known_distributions() -> None:
    full, other = _logits((0.5, 0.5), (0.25, 0.75), (1.0, 0.0)), _logits((0.25, 0.75), (0.25, 0.75), (0.5, 0.5))
    expected = [0.5 * math.log(2) + 0.5 * math.log(2 / 3), 0.0, math.log(2)]
    assert kl_divergence(full, other).tolist() == pytest.approx(expected, abs=1e-6)


def test_kl_is_not_symmetric_and_goes_to_infinity_where_the_other_rules_out() -> None:
    full, other = _logits((0.5, 0.5)), _logits((1.0, 0.0))
    assert kl_divergence(full, other).item() == math.inf
    assert kl_divergence(other, full).item() == pytest.approx(math.log(2))


def test_equal_logits_diverge_by_nothing_up_to_a_constant() -> None:
    logits = torch.randn(4, 50_000)
    assert kl_divergence(logits, logits).max() == 0
    assert kl_divergence(logits, logits + 3).max() < 1e-12
    assert (kl_divergence(logits, torch.randn(4, 50_000)) > 0).all()


def test_likelihood_and_agreement() -> None:
    logits = _logits((0.5, 0.25, 0.25), (0.125, 0.75, 0.125))
    assert negative_log_likelihood(logits, torch.tensor([1, 1])).tolist() == pytest.approx(
        [math.log(4), math.log(4 / 3)], abs=1e-6
    )
    assert top1_agreement(logits, logits.flip(0)).tolist() == [False, False]
    assert top1_agreement(logits, logits * 2).tolist() == [True, True]


def test_compare_puts_them_together() -> None:
    full = _logits((0.5, 0.5), (0.75, 0.25))
    other = _logits((0.25, 0.75), (0.75, 0.25))
    result = compare(full, other, torch.tensor([1, 0]))
    first = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert result.first_kl == pytest.approx(first, abs=1e-6)
    assert result.mean_kl == pytest.approx(first / 2, abs=1e-6)
    assert (result.top1, result.tokens) == (0.5, 2)
    assert result.nll == pytest.approx(math.log(4 / 3), abs=1e-6)


@pytest.mark.parametrize(("rows", "targets"), [(0, 0), (2, 1)])
def test_what_does_not_match_is_refused(rows: int, targets: int) -> None:
    logits = torch.zeros(rows, 3)
    with pytest.raises(AssertionError):
        compare(logits, logits, torch.zeros(targets, dtype=torch.long))
