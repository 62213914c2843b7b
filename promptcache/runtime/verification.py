"""What `verify` found out about a prompt."""

from __future__ import annotations

from dataclasses import dataclass

CLOSE = 0.02
"""Nats a token up to which nothing is recommended: repair in part would change about as much."""

_HELPS = 0.5  # the share of the KL that a remedy has to take away


@dataclass(frozen=True)
class ModuleReport:
    """A module's stored tokens in the prompt; an empty `path` is the schema's own text.

    `attention` is the share of the new text's attention that falls on them; `distance` how far their values are from
    those of a full prefill, relative to their length, a mean over tokens and layers. `exact`: they are the same.
    """

    path: str
    tokens: int
    attention: float
    distance: float
    exact: bool


@dataclass(frozen=True)
class Remedy:
    """Something that was tried. `scaffold` are the modules (paths) encoded together, empty for a repair policy alone.
    `mean_kl` is what was left, `repaired_tokens` what it computes again in every request."""

    repair: str
    scaffold: tuple[str, ...]
    mean_kl: float
    repaired_tokens: int


@dataclass(frozen=True)
class Verification:
    """A prompt with reuse beside a full prefill of the same ids at the same positions.

    KL(full || reuse) in nats, at the first token and as a mean over the answer's; `top1`: both have the same likeliest
    first token; `agreement`: the share of `greedy_tokens` greedy tokens before the first that differs. `nll` and
    `full_nll`: negative log-likelihood a token of the answer, given or the full prefill's own.
    """

    exact: bool
    repair: str
    encoding: str
    layout: str
    prompt_tokens: int
    repaired_tokens: int
    first_kl: float
    top1: bool
    mean_kl: float
    nll: float
    full_nll: float
    answer: str
    agreement: float
    greedy_tokens: int
    modules: tuple[ModuleReport, ...]
    remedies: tuple[Remedy, ...]

    @property
    def recommendation(self) -> str:
        """What to do, in a sentence or two."""
        if self.exact:
            return "The result is exact: it is that of a full prefill."
        if self.mean_kl <= CLOSE:
            return "The modules hardly depend on each other here: nothing to mend."
        enough = [each for each in self.remedies if each.mean_kl <= self.mean_kl * (1 - _HELPS)]
        scaffold = min((each for each in enough if each.scaffold), key=lambda each: each.mean_kl, default=None)
        repair = min((e for e in enough if not e.scaffold), key=lambda each: each.repaired_tokens, default=None)
        found = []
        if scaffold is not None:
            *others, last = (f"`{path}`" for path in scaffold.scaffold)
            found.append(
                f"{last} leans on {', '.join(others)}: put them in a scaffold, "
                f'<scaffold modules="{" ".join(scaffold.scaffold)}"/> ({self._change(scaffold)})'
            )
        if repair is not None:
            found.append(f'use repair="{repair.repair}" ({self._change(repair)}, {repair.repaired_tokens} tokens)')
        if not found:
            return (
                f"No remedy that was tried takes half of the KL of {self.mean_kl:.3f}: compute it all, repair='full'."
            )
        text = ", or ".join(found)
        return f"{text[0].upper()}{text[1:]}."

    def _change(self, remedy: Remedy) -> str:
        return f"KL {self.mean_kl:.3f} becomes {remedy.mean_kl:.3f}"
