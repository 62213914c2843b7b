"""Memory-efficient attention as torch ships it for CUDA (Rabe and Staats, 2021; the kernel is xFormers')."""

from __future__ import annotations

import torch

from promptcache.kv.kernels.base import Part
from promptcache.kv.kernels.cuda import aligned, aligned_mask, fits


class CudaEfficient:
    """See `Kernel`. float32 and masks. Its log-sum-exp has rows up to the next multiple of 32; a mask must be as
    aligned as the rest, and is read to the end of the row."""

    name = "CUDA efficient"

    def takes(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
    ) -> bool:
        """See `Kernel`."""
        # bfloat16 came with Ampere.
        return fits(query, key, value, (torch.float32, torch.float16), 7) or fits(
            query, key, value, (torch.bfloat16,), 8
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
        rows = query.shape[2]
        if mask is not None:
            mask = aligned_mask(mask.to(query.dtype)).expand((*query.shape[:3], key.shape[2]))
        output, lse, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
            aligned(query), aligned(key), aligned(value), mask, True, 0.0, causal, scale=scale
        )
        return output, lse.narrow(-1, 0, rows)
