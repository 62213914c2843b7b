"""LongBench's metrics for English and code: prediction and one gold answer to a score from 0 to 1.

The values are those of its `metrics.py` (THUDM/LongBench, MIT), also where that has a slip, so that scores can stand
beside published ones. Sources of the metrics themselves: SQuAD (F1), Lin 2004 (ROUGE), LCC and RepoBench (edit
similarity).
"""

from __future__ import annotations

import inspect
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rapidfuzz import fuzz
from rouge import Rouge  # type: ignore[import-untyped]

from eval.longbench.tasks import MetricName
from promptcache.errors import RequestError

Metric = Callable[[str, str, Sequence[str]], float]
"""(prediction, gold answer, all classes of the dataset or nothing) to a score."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NUMBER = re.compile(r"\d+")
_PARAGRAPH = re.compile(r"Paragraph (\d+)")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def f1(prediction: str, answer: str, classes: Sequence[str] = ()) -> float:
    """Harmonic mean of precision and recall over words, without case, ASCII punctuation and articles."""
    predicted, gold = _words(prediction), _words(answer)
    shared = sum((Counter(predicted) & Counter(gold)).values())
    return 2 * shared / (len(predicted) + len(gold)) if shared else 0.0


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def rouge_l(prediction: str, answer: str, classes: Sequence[str] = ()) -> float:
    """ROUGE-L F over whole texts, as the `rouge` package has it.

    Sentences end at every ".", words are split at white space and keep case and punctuation, and a repeated word counts
    once. Google's `rouge-score` folds case, drops punctuation and takes one subsequence over the whole text: other
    values, which is why it is not used. A text without words in it scores 0.
    """
    with _deep_recursion(len(prediction.split()) + len(answer.split())):
        try:
            scores = Rouge(metrics=["rouge-l"], stats=["f"]).get_scores(prediction, answer)
        except ValueError:  # nothing is left of one side once it is cut at full stops
            return 0.0
    return float(scores[0]["rouge-l"]["f"])


@contextmanager
def _deep_recursion(levels: int) -> Iterator[None]:
    # `rouge` walks its table with one call a word. Past 1,000 words that fails, and LongBench then scores 0 silently.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, len(inspect.stack(0)) + levels + 200))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def classification(prediction: str, answer: str, classes: Sequence[str] = ()) -> float:
    """1 / (classes named in the prediction) if the right one is among them, else 0.

    Classes that are a part of the right one's name do not count.
    """
    if not classes:
        raise RequestError("a classification record has no all_classes", hint="use LongBench's own file")
    named = [name for name in classes if name in prediction]
    # LongBench drops from the list that it walks, which skips the class behind a dropped one. Kept: it changes scores.
    for name in named:
        if name in answer and name != answer:
            named.remove(name)
    return 1 / len(named) if answer in named else 0.0


def retrieval(prediction: str, answer: str, classes: Sequence[str] = ()) -> float:
    """The share of the numbers in the prediction that are the number in "Paragraph N"."""
    gold = _PARAGRAPH.search(answer)
    if gold is None:
        raise RequestError(f"the gold answer {answer!r} names no 'Paragraph N'", hint="use LongBench's own file")
    return count(prediction, gold[1])


def count(prediction: str, answer: str, classes: Sequence[str] = ()) -> float:
    """The share of the numbers in the prediction that are the gold one, digit for digit."""
    numbers = _NUMBER.findall(prediction)
    return numbers.count(answer) / len(numbers) if numbers else 0.0


def edit_similarity(prediction: str, answer: str, classes: Sequence[str] = ()) -> float:
    """Indel similarity of the gold line and the first line of the prediction that holds no "`", "#" or "//".

    In steps of 0.01, as `fuzzywuzzy` rounds. That package falls back to `difflib` where `python-Levenshtein` is not
    installed, and then finds lower values for some pairs; ours are those with it.
    """
    lines = prediction.lstrip("\n").split("\n")
    code = next((line for line in lines if not any(mark in line for mark in ("`", "#", "//"))), "")
    if not code or not answer:
        return float(code == answer)
    return round(fuzz.ratio(code, answer)) / 100


METRICS: dict[MetricName, Metric] = {
    "f1": f1,
    "rouge_l": rouge_l,
    "classification": classification,
    "retrieval": retrieval,
    "count": count,
    "edit_similarity": edit_similarity,
}
