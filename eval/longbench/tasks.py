"""What LongBench fixes for each dataset: its prompt, the length of its answers, its metric, how answers are read.

Sources, all of THUDM/LongBench (MIT): `config/dataset2maxlen.json`, `pred.py` (chat, stop) and `eval.py` (metric,
first_line).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from eval.longbench.templates import TEMPLATES
from promptcache.errors import RequestError

MetricName = Literal["f1", "rouge_l", "classification", "retrieval", "count", "edit_similarity"]


@dataclass(frozen=True)
class Task:
    """One dataset.

    `chat`: the prompt is a user's turn in the model's chat template. Without it the prompt is plain text, as LongBench
    has it for few-shot examples and code. `first_line`: only the first line of an answer counts. `stop`: the answer
    ends before this text.
    """

    name: str
    metric: MetricName
    max_new_tokens: int
    chat: bool = True
    first_line: bool = False
    stop: tuple[str, ...] = ()

    @property
    def template(self) -> str:
        """The prompt, with `{context}` once and `{input}` at most once behind it."""
        return TEMPLATES[self.name]


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("narrativeqa", "f1", 128),
        Task("qasper", "f1", 128),
        Task("multifieldqa_en", "f1", 64),
        Task("hotpotqa", "f1", 32),
        Task("2wikimqa", "f1", 32),
        Task("musique", "f1", 32),
        Task("gov_report", "rouge_l", 512),
        Task("qmsum", "rouge_l", 512),
        Task("multi_news", "rouge_l", 512),
        Task("trec", "classification", 64, chat=False, first_line=True),
        Task("triviaqa", "f1", 32, chat=False, first_line=True),
        # Models go on with the next dialogue without end, so LongBench ends the answer at the line.
        Task("samsum", "rouge_l", 128, chat=False, first_line=True, stop=("\n",)),
        Task("passage_count", "count", 32),
        Task("passage_retrieval_en", "retrieval", 32),
        Task("lcc", "edit_similarity", 64, chat=False),
        Task("repobench-p", "edit_similarity", 64, chat=False),
    )
}

PAPER_DATASETS = (
    "narrativeqa",
    "2wikimqa",
    "musique",
    "gov_report",
    "qmsum",
    "multi_news",
    "triviaqa",
    "passage_retrieval_en",
)
"""The eight of the Prompt Cache paper's figures and accuracy table, in its order."""


def find_task(name: str) -> Task:
    """The task of that name. Raises RequestError with the valid names when there is none."""
    if name in TASKS:
        return TASKS[name]
    close = difflib.get_close_matches(name, TASKS, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    raise RequestError(
        f"unknown LongBench dataset {name!r}",
        hint=f"{guess}English and code datasets: {', '.join(TASKS)}",
    )
