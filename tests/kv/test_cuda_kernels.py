"""The kernels for CUDA without a GPU: what they are called with, against stand-ins with the traps of the real ones,
and what torch itself says of their signatures and shapes."""

from __future__ import annotations

import logging

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from promptcache.kv import kernel
from promptcache.kv.kernel import attend, merge
from promptcache.kv.kernels import cuda
from promptcache.kv.segment_view import SegmentView
from promptcache.kv.segments import Segments, attend_segments
from tests.kv.fake_gpu import fake_gpu
from tests.kv.plain import plain_attend

HALF, SINGLE, BRAIN = torch.float16, torch.float32, torch.bfloat16


def inputs(rows=5, length=9, dim=16, dtype=HALF, value_dim=None):
    torch.manual_seed(0)
    shapes = ((1, 3, rows, dim), (1, 3, length, dim), (1, 3, length, value_dim or dim))
    return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


def close(found, expected, dtype):
    tolerance = 1e-5 if dtype == SINGLE else 2e-2
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.float(), theirs.float(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "generation", "masked", "dims", "expected"),
    [
        (HALF, 8, False, (16, 16), ["flash"]),
        (BRAIN, 9, False, (128, 128), ["flash"]),
        (HALF, 7, False, (16, 16), ["efficient"]),
        (BRAIN, 7, False, (16, 16), []),
        (SINGLE, 8, False, (16, 16), ["efficient"]),
        (SINGLE, 6, False, (16, 16), []),
        (HALF, 8, True, (16, 16), ["efficient"]),
        (BRAIN, 8, True, (16, 16), ["efficient"]),
        (HALF, 8, False, (264, 264), ["efficient"]),
        (HALF, 8, False, (16, 24), ["efficient"]),
        (HALF, 8, False, (12, 12), []),
        (SINGLE, 8, False, (12, 12), ["efficient"]),
        (SINGLE, 8, False, (6, 6), []),
        (torch.float64, 8, False, (16, 16), []),
        (HALF, 0, False, (16, 16), []),
    ],
)
def test_each_gets_what_it_takes_and_the_rest_is_plain(dtype, generation, masked, dims, expected):
    query, key, value = inputs(dtype=dtype, dim=dims[0], value_dim=dims[1])
    mask = torch.randn(5, 9).to(dtype) if masked else None
    with fake_gpu(generation) as called:
        found = attend(query, key, value, scale=0.25, mask=mask)
    assert called == expected
    close(found, plain_attend(query, key, value, scale=0.25, mask=mask), dtype)


@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE])
@pytest.mark.parametrize("rows", [1, 31, 32, 33])
def test_the_padded_rows_of_the_log_sum_exp_are_not_ours(dtype, rows):
    query, key, value = inputs(rows=rows, length=rows, dtype=dtype)
    with fake_gpu():
        for options in ({}, {"causal": True}, {"mask": torch.randn(rows, rows).to(dtype)}):
            close(
                attend(query, key, value, scale=0.25, **options),
                plain_attend(query, key, value, scale=0.25, **options),
                dtype,
            )


@pytest.mark.parametrize("dtype", [HALF, SINGLE])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 16])
def test_masks_of_any_width_and_shape(dtype, length):
    query, key, value = inputs(length=length, dtype=dtype)
    wide = torch.randn(5, length + 3).to(dtype)
    masks = [wide[:, :length], wide[:, 3:], wide[:1, :length], torch.randn(length, 5).to(dtype).t()]
    masks += [wide[None, None, :, :length], torch.randn(1, 3, 5, length).to(dtype), torch.randn(5, length)]
    for mask in masks:
        with fake_gpu() as called:
            found = attend(query, key, value, scale=0.25, mask=mask)
        assert called == ["efficient"]
        close(found, plain_attend(query, key, value, scale=0.25, mask=mask.to(dtype)), dtype)


@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE])
def test_a_row_that_sees_nothing_weighs_nothing(dtype):
    query, key, value = inputs(dtype=dtype)
    mask = torch.zeros(5, 9, dtype=dtype)
    mask[1], mask[2, :8] = torch.finfo(dtype).min, torch.finfo(dtype).min
    with fake_gpu():
        output, lse = attend(query, key, value, scale=0.25, mask=mask)
        other = attend(query, key[:, :, :4], value[:, :, :4], scale=0.25)
    assert (lse[..., 1] == float("-inf")).all() and not output[..., 1, :].any()
    close((output[..., 2, :],), (value[..., 8, :],), dtype)
    merged = merge([output, other[0]], [lse, other[1]])
    close((merged[..., 1, :],), (other[0][..., 1, :],), dtype)


@pytest.mark.parametrize(("rows", "length"), [(0, 4), (4, 0), (0, 0)])
def test_nothing_is_asked_for_nothing(rows, length):
    with fake_gpu() as called:
        output, lse = attend(*inputs(rows, length), scale=0.25)
    assert called == [] and output.shape == (1, 3, rows, 16) and (lse == float("-inf")).all()


@pytest.mark.parametrize("dtype", [HALF, SINGLE])
def test_states_that_lie_anywhere(dtype):
    query, key, value = inputs(dtype=dtype)
    expected = plain_attend(query, key, value, scale=0.25)
    strided = [t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in (query, key, value)]
    shifted = [torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape) for t in (query, key, value)]
    by_token = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (query, key, value)]
    narrow = [torch.cat([t, t[..., :1]], -1)[..., :-1] for t in (query, key, value)]
    for states in (strided, shifted, by_token, narrow):
        with fake_gpu() as called:
            close(attend(*states, scale=0.25), expected, dtype)
        assert len(called) == 1
    # Where the kernel can read them, they are read where they lie.
    assert all(cuda.aligned(states) is states for states in (*by_token, key[:, :, 2:7]))


@pytest.mark.parametrize("dtype", [HALF, SINGLE])
@pytest.mark.parametrize("rows", [1, 3, 140])
def test_segments_on_a_gpu_as_on_the_cpu(dtype, rows):
    torch.manual_seed(0)
    query = torch.randn(1, 6, rows, 16, dtype=dtype)
    tail_key, tail_value = (torch.randn(1, 2, 5 + rows, 16, dtype=dtype) for _ in range(2))
    views = tuple(
        SegmentView(*((torch.randn(2, length + 3, 16, dtype=dtype)[:, 3:][None],) for _ in range(2)), first_row)
        for length, first_row in ((40, 0), (7, rows // 2), (1500, rows // 3))
    )
    firsts = (0, 0, rows // 2, rows // 2, rows - 1)
    for first_rows in ((), firsts):
        expected = attend_segments(query, tail_key, tail_value, Segments(views, first_rows=first_rows), 0, 0.3)
        with fake_gpu() as called:
            found = attend_segments(query, tail_key, tail_value, Segments(views, first_rows=first_rows), 0, 0.3)
        close((found,), (expected,), dtype)
        assert ("flash" in called) == (dtype == HALF)


@pytest.mark.parametrize(
    "fault", [NotImplementedError("no 'CUDA' backend"), RuntimeError("... not enabled for build.")]
)
def test_a_kernel_that_is_not_there_is_named_once_and_replaced(fault, monkeypatch, caplog):
    query, key, value = inputs()
    with fake_gpu() as called:
        monkeypatch.setattr(kernel.KERNELS[0], "run", _raising(fault))
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                close(attend(query, key, value, scale=0.25), plain_attend(query, key, value, scale=0.25), HALF)
    assert called == ["efficient"] * 3
    assert [record.message for record in caplog.records] == [
        "this build of torch has no CUDA flash attention; another kernel takes its place"
    ]


def test_other_faults_of_a_kernel_are_told(monkeypatch):
    with fake_gpu():
        monkeypatch.setattr(kernel.KERNELS[0], "run", _raising(torch.OutOfMemoryError("CUDA out of memory")))
        with pytest.raises(torch.OutOfMemoryError):
            attend(*inputs(), scale=0.25)


def test_a_build_without_flash_is_not_asked_for_it():
    with fake_gpu(has_flash=False) as called:
        attend(*inputs(), scale=0.25)
    assert called == ["efficient"]


def test_the_cpu_is_asked_nothing_about_gpus(monkeypatch):
    for name in ("get_device_capability", "current_device", "is_available", "init", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, name, _raising(AssertionError("the CPU path touched CUDA")))
    for states in (inputs(), inputs(dim=4), inputs(dtype=torch.float64)):
        attend(*states, scale=0.25)


def test_the_ops_have_the_signatures_that_are_relied_on():
    assert str(torch.ops.aten._scaled_dot_product_flash_attention.default._schema) == (
        "aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
        "bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor "
        "logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, "
        "Tensor debug_attn_mask)"
    )
    assert str(torch.ops.aten._scaled_dot_product_efficient_attention.default._schema) == (
        "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, "
        "bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, "
        "Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)"
    )


@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE])
@pytest.mark.parametrize("masked", [False, True])
def test_torchs_own_shapes_for_them_are_those_of_the_contract(dtype, masked, monkeypatch):
    monkeypatch.setattr(cuda, "capability", lambda device: (8, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    with FakeTensorMode():
        query, key, value = (torch.empty(1, 3, length, 16, dtype=dtype, device="cuda") for length in (37, 50, 50))
        mask = torch.empty(37, 50, dtype=dtype, device="cuda") if masked else None
        output, lse = attend(query, key, value, scale=0.25, mask=mask)
    assert output.shape == (1, 3, 37, 16) and output.dtype == dtype and output.device.type == "cuda"
    assert lse.shape == (1, 3, 37) and lse.dtype == SINGLE and lse.device.type == "cuda"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE])
@pytest.mark.parametrize(("rows", "length"), [(1, 5000), (37, 50), (64, 64)])
def test_a_real_gpu(dtype, rows, length):
    query, key, value = (states.cuda() for states in inputs(rows=rows, length=length, dim=128, dtype=dtype))
    options = [{}, {"mask": torch.randn(rows, length, device="cuda").to(dtype)}]
    options += [{"causal": True}] if rows == length else []
    for option in options:
        found = attend(query, key, value, scale=0.09, **option)
        close(found, plain_attend(query, key, value, scale=0.09, **option), dtype)


def _raising(fault):
    def run(*args, **kwargs):
        raise fault

    return run
