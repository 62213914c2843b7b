"""A record's score, and a dataset's."""

from __future__ import annotations

from collections.abc import Sequence

from eval.longbench.metrics import METRICS
from eval.longbench.record import Record
from eval.longbench.tasks import Task


def read_answer(task: Task, completion: str) -> str:
    """What of a completion counts: all of it, or for few-shot tasks its first line behind leading line breaks."""
    return completion.lstrip("\n").split("\n")[0] if task.first_line else completion


def score_record(task: Task, completion: str, record: Record) -> float:
    """The best score of the completion over all gold answers, 0 to 1."""
    answer = read_answer(task, completion)
    return max(METRICS[task.metric](answer, gold, record.all_classes or ()) for gold in record.answers)


def score_dataset(scores: Sequence[float]) -> float:
    """The mean of the records' scores in percent, with two decimals as LongBench prints it."""
    assert scores, "a dataset without records has no score"
    return round(100 * sum(scores) / len(scores), 2)
