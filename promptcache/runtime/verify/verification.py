"""What `verify` found out about a prompt."""

from __future__ import annotations

from dataclasses import dataclass

CLOSE = 0.02
"""Nats a token up to which nothing is recommended: repair in part would change about as much."""

SEAMS = "link:16"
"""The repair beside which scaffolds are tried."""

_HELPS = 0.5  # the share of the KL that a remedy has to take away

_LEANS = 1.5  # times the control that a gain has to be


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
class Leaning:
    """How much easier the module `path` is to read behind `on`, a module before it, than behind unrelated texts of that
    length: `gain`, in nats a token. `control` is the farthest that any of these texts is from the others."""

    path: str
    on: str
    gain: float
    control: float

    @property
    def leans(self) -> bool:
        """Whether that is more than chance."""
        return self.gain > _LEANS * self.control


@dataclass(frozen=True)
class Remedy:
    """Something that was tried: a repair policy, with the two modules (paths) of `scaffold` encoded together. `mean_kl`
    is what was left, `repaired_tokens` what it computes again in every request."""

    repair: str
    mean_kl: float
    repaired_tokens: int
    scaffold: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verification:
    """A prompt with reuse beside a full prefill of the same ids at the same positions.

    KL(full || reuse) in nats, at the first token and as a mean over the answer's; `top1`: both have the same likeliest
    first token; `agreement`: the share of `greedy_tokens` greedy tokens before the first that differs. `nll` and
    `full_nll`: negative log-likelihood a token of the answer, given or the full prefill's own. `leanings` are of the
    pairs of modules that were looked at; `pairs_left_out` were not, since those matter more.
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
    leanings: tuple[Leaning, ...]
    pairs_left_out: int
    remedies: tuple[Remedy, ...]

    @property
    def recommendation(self) -> str:
        """What to do, in a sentence or two."""
        if self.exact:
            return "The result is exact: it is that of a full prefill."
        if self.mean_kl <= CLOSE:
            return "Reuse hardly changes this answer: nothing to mend."
        repairs = [each for each in self.remedies if not each.scaffold]
        enough = [each for each in repairs if each.mean_kl <= self.mean_kl * (1 - _HELPS)]
        repair = min(enough, key=lambda each: each.repaired_tokens, default=None)
        found = []
        if better := self._better_together():
            seams, scaffold = better
            first, second = scaffold.scaffold
            leans = f"`{second}` leans on `{first}`: put them in a scaffold,"
            found.append(
                f"{leans if self._leans(scaffold) else f'`{first}` and `{second}` do better encoded together:'} "
                f'<scaffold modules="{first} {second}"/> (with {SEAMS}, KL {seams.mean_kl:.3f} becomes '
                f"{scaffold.mean_kl:.3f})"
            )
        if repair is not None:
            found.append(
                f'use repair="{repair.repair}" (KL {self.mean_kl:.3f} becomes {repair.mean_kl:.3f}, '
                f"{repair.repaired_tokens} tokens)"
            )
        if not found:
            return f"No remedy that was tried takes half of the KL of {self.mean_kl:.3f}: use repair='full'."
        text = ", or ".join(found)
        return f"{text[0].upper()}{text[1:]}."

    def _leans(self, remedy: Remedy) -> bool:
        return any(each.leans and (each.on, each.path) == remedy.scaffold for each in self.leanings)

    def _better_together(self) -> tuple[Remedy, Remedy] | None:
        """The repair of all seams, and the scaffold that helps most beside it, one with a module that leans on the
        other if there is one; None where none helps much."""
        seams = next((each for each in self.remedies if each.repair == SEAMS and not each.scaffold), None)
        if seams is None:
            return None
        enough = min(seams.mean_kl * (1 - _HELPS), seams.mean_kl - CLOSE / 2)
        helping = [each for each in self.remedies if each.scaffold and each.mean_kl <= enough]
        best = min(helping, key=lambda each: (not self._leans(each), each.mean_kl), default=None)
        return None if best is None else (seams, best)
