"""The plan of a prompt whose runs have their positions."""

from __future__ import annotations

from collections.abc import Sequence

from promptcache.layout.joint import use_joint_states
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan, Run, finish_runs, is_exact
from promptcache.pml import BoundPrompt


def prompt_plan(layout: SchemaLayout, prompt: BoundPrompt, runs: Sequence[Run], *, relocates: bool) -> RequestPlan:
    """Joint states where the prompt has them, the last token computed, and whether the result is exact."""
    imported = [item.path for item in prompt.imports()]
    finished = finish_runs(use_joint_states(layout, runs, imported, relocates=relocates))
    return RequestPlan(layout.name, finished, is_exact(finished, layout.passes), layout.policy, layout.encoding)
