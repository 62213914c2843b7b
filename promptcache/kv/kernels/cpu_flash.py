"""torch's flash attention for the CPU."""

from __future__ import annotations

import torch

from promptcache.kv.kernels.base import Part

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class CpuFlash:
    """See `Kernel`. It ends the process on empty input, says 0 for the log-sum-exp of a row that sees nothing, and is
    wrong without an error where a last stride is not 1 or heads or dims differ."""

    name = "CPU flash"

    def takes(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
    ) -> bool:
        """See `Kernel`."""
        return (
            query.is_cpu
            and query.dtype in _DTYPES
            and query.dtype == key.dtype == value.dtype
            and 8 <= query.shape[-1] == key.shape[-1] == value.shape[-1] <= 256
            and query.shape[1] == key.shape[1] == value.shape[1]
        )

    def run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        mask: torch.Tensor | None,
        causal: bool,
    ) -> Part:
        """See `Kernel`."""
        query, key, value = (t if t.stride(-1) == 1 else t.contiguous() for t in (query, key, value))
        if mask is not None:
            mask = mask.to(query.dtype).expand((*query.shape[:3], key.shape[-2]))
            mask = mask if mask.stride(-1) == 1 else mask.contiguous()
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, attn_mask=mask, scale=scale
        )
        return output, lse.float()
