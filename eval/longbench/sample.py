"""Which records a run takes, and how long their prompts may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eval.config import EvalConfig
from eval.longbench.data import load_dataset
from eval.longbench.record import Record
from eval.longbench.tasks import PAPER_DATASETS, TASKS, Task, find_task
from promptcache.errors import RequestError


@dataclass(frozen=True)
class Sample:
    """One record, its prompt cut to `max_length` tokens; None is what the model allows."""

    task: Task
    record: Record
    max_length: int | None

    @property
    def part(self) -> str:
        """Its name in a run's results: `2wikimqa/3/4096`."""
        return f"{self.task.name}/{self.record.index}/{self.max_length or 'model'}"


def choose_samples(config: EvalConfig, default: Sequence[str] = tuple(TASKS)) -> tuple[Sample, ...]:
    """The first `limit` records of each dataset at `max_length`.

    Then, where the options name a `long_max_length`, the `long_limit` longest records of those of the paper's eight
    datasets that were asked for, again at that length. Raises RequestError.
    """
    names = config.datasets or tuple(default)
    records = {name: load_dataset(name, config.data) for name in names}
    samples = [
        Sample(find_task(name), record, config.max_length) for name in names for record in records[name][: config.limit]
    ]
    long_max_length, long_limit = _long(config)
    if long_max_length is not None:
        samples += [
            Sample(find_task(name), record, long_max_length)
            for name in names
            if name in PAPER_DATASETS
            for record in longest(records[name], long_limit)
        ]
    if not samples:
        raise RequestError("there are no records", hint="look into the folder that --data names")
    # A record can be asked for twice when both lengths are the same.
    return tuple({sample.part: sample for sample in samples}.values())


def longest(records: Sequence[Record], count: int) -> list[Record]:
    """Those with the longest contexts, in the order of their file."""
    chosen = sorted(records, key=lambda record: (-len(record.context), record.index))[:count]
    return sorted(chosen, key=lambda record: record.index)


def _long(config: EvalConfig) -> tuple[int | None, int]:
    length, limit = config.options.get("long_max_length"), config.options.get("long_limit", 2)
    for name, value in (("long_max_length", length), ("long_limit", limit)):
        if value is not None and (type(value) is not int or value < 1):
            raise RequestError(f"options: {name} is {value!r}", hint="it is a whole number from 1 up")
    return length, limit
