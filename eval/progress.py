"""Work through a run's parts with a bar on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from eval.results import RunFolder


def work_through(results: RunFolder, parts: Sequence[str], title: str) -> Iterator[str]:
    """Yields each part that is not finished when its turn comes; the bar counts the finished ones as well."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=len(parts))
        for part in parts:
            if part not in results:
                bar.update(task, description=f"{title} {part}")
                yield part
            bar.advance(task)
