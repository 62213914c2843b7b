"""A completion as text, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from promptcache.runtime.reply.completion import Completion


def facts(done: Completion) -> dict[str, Any]:
    """Everything that a completion holds, for JSON."""
    return asdict(done)


def speedup(baseline: Completion, reused: Completion) -> float:
    """How many times sooner the first token came with reuse."""
    return baseline.timings.ttft_ms / reused.timings.ttft_ms


def statistics(done: Completion) -> str:
    """One line about a reply."""
    usage, timings = done.usage, done.timings
    repaired = f", {usage.repaired_tokens} repaired by {done.repair}" if usage.repaired_tokens else ""
    return (
        f"{usage.prompt_tokens} prompt tokens: {usage.reused_tokens} reused, {usage.fresh_tokens} fresh{repaired}; "
        f"first token after {timings.ttft_ms:.1f} ms, {usage.completion_tokens} tokens in {timings.total_ms:.0f} ms"
    )


def comparison(reused: Completion, baseline: Completion) -> Table:
    """The same prompt with reuse and without, side by side."""
    table = Table(show_lines=False)
    table.add_column("")
    table.add_column("with reuse", justify="right")
    table.add_column("without", justify="right")
    both = (reused, baseline)
    for what in ("prompt", "reused", "fresh", "repaired", "computed", "completion"):
        table.add_row(f"{what} tokens", *(str(getattr(done.usage, f"{what}_tokens")) for done in both))
    table.add_section()
    table.add_row("time to first token", *(f"{done.timings.ttft_ms:.1f} ms" for done in both))
    for what in ("plan", "assemble", "prefill", "decode", "total"):
        table.add_row(what, *(f"{getattr(done.timings, f'{what}_ms'):.1f} ms" for done in both))
    table.add_row("first token sooner by", f"{speedup(baseline, reused):.1f} times", "")
    table.add_section()
    # Text, not str: brackets in an answer are no markup.
    table.add_row("answer", *(Text(done.text.strip(), justify="left") for done in both))
    return table
