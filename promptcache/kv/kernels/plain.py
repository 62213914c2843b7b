"""Matrix products in float32: every device, dtype and dim."""

from __future__ import annotations

import torch

from promptcache.kv.kernels.base import Part

_HIDDEN = torch.finfo(torch.float32).min


class Plain:
    """See `Kernel`. It holds all scores at once."""

    name = "plain"

    def takes(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
    ) -> bool:
        """See `Kernel`."""
        return True

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
        scores = torch.matmul(query.float() * scale, key.float().transpose(-1, -2))
        if causal:
            rows, length = scores.shape[-2:]
            above = torch.ones(rows, length, dtype=torch.bool, device=query.device).triu(1)
            scores = scores.masked_fill(above, _HIDDEN)
        if mask is not None:
            scores = scores + mask.float()
        lse = torch.logsumexp(scores, -1)
        output = torch.matmul((scores - lse[..., None]).exp(), value.float())
        return output.to(query.dtype), lse
