"""FlashAttention-2 as torch ships it for CUDA (Dao, 2023)."""

from __future__ import annotations

import torch

from promptcache.kv.kernels.base import Part
from promptcache.kv.kernels.cuda import aligned, fits

_DTYPES = (torch.float16, torch.bfloat16)


class CudaFlash:
    """See `Kernel`. Half precision and no masks, on Ampere or newer. It splits many keys among few rows by itself."""

    name = "CUDA flash"

    def takes(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
    ) -> bool:
        """See `Kernel`."""
        return (
            mask is None
            and fits(query, key, value, _DTYPES, 8)
            and query.shape[-1] == value.shape[-1] <= 256
            and torch.backends.cuda.is_flash_attention_available()
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
        output, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
            aligned(query), aligned(key), aligned(value), 0.0, causal, False, scale=scale
        )
        return output, lse
