"""Golden scores, computed by hand from LongBench's definitions."""

from __future__ import annotations

import sys

import pytest

from eval.longbench.metrics import METRICS, classification, count, edit_similarity, f1, retrieval, rouge_l
from eval.longbench.record import Record
from eval.longbench.scoring import read_answer, score_dataset, score_record
from eval.longbench.tasks import TASKS, find_task
from promptcache.errors import RequestError


@pytest.mark.parametrize(
    ("prediction", "answer", "score"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1.0),  # case, article and punctuation go
        ("in Paris France", "Paris", 0.5),  # precision 1/3, recall 1
        ("red blue", "blue green", 0.5),  # 1/2 and 1/2
        ("yes yes", "yes", 2 / 3),  # the second yes finds no partner: 1/2 and 1
        ("blue", "green", 0.0),
        ("", "green", 0.0),
        ("the", "the", 0.0),  # no word is left
        ("well-known", "wellknown", 1.0),  # punctuation joins what it parted
        ("Jean\u2019s", "Jeans", 0.0),  # only ASCII punctuation goes
        ("a b c d", "b x d", 2 / 3),  # "a" is an article: 2/3 and 2/3
    ],
)
def test_f1(prediction: str, answer: str, score: float) -> None:
    assert f1(prediction, answer) == pytest.approx(score)


@pytest.mark.parametrize(
    ("prediction", "answer", "score"),
    [
        ("the cat sat", "the cat sat", 1.0),
        ("the cat sat", "the dog sat down", 4 / 7),  # "the sat": precision 2/3, recall 2/4
        ("b a", "a b", 0.5),  # one of the two is in order
        ("a b. c d", "c d. a b", 1.0),  # sentence by sentence; over the whole text it would be 1/2
        ("no no no", "no", 1.0),  # repeats count once
        ("Cat,", "cat", 0.0),  # case and commas stay
        ("pi is 3.14", "3 is pi", 2 / 7),  # the point cuts: "pi is 3", "14"; one word is in order, 1/4 and 1/3
        ("", "cat", 0.0),
        ("...", "cat", 0.0),
        (" \n ", "cat", 0.0),
    ],
)
def test_rouge_l(prediction: str, answer: str, score: float) -> None:
    assert rouge_l(prediction, answer) == pytest.approx(score, abs=1e-7)


def test_rouge_l_of_long_sentences_is_not_lost_to_the_recursion_limit() -> None:
    limit = sys.getrecursionlimit()
    # The way back from the last words to the first ones is 1,000 calls deep.
    prediction = " ".join(["shared", *(f"p{i}" for i in range(499))])
    answer = " ".join(["shared", *(f"a{i}" for i in range(499))])
    assert rouge_l(prediction, answer) == pytest.approx(1 / 500, abs=1e-7)
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    ("prediction", "answer", "classes", "score"),
    [
        ("Date", "Date", ["Date", "City"], 1.0),
        ("It is a Date.", "Date", ["Date", "City"], 1.0),
        ("Date or City", "Date", ["Date", "City"], 0.5),
        ("City", "Date", ["Date", "City"], 0.0),
        ("date", "Date", ["Date", "City"], 0.0),
        ("", "Date", ["Date", "City"], 0.0),
        ("Other plant", "Other plant", ["plant", "Other plant"], 1.0),  # "plant" is a part of the right name
        # "Other" is dropped, and LongBench then steps over "plant".
        ("Other plant", "Other plant", ["Other", "plant", "Other plant"], 0.5),
    ],
)
def test_classification(prediction: str, answer: str, classes: list[str], score: float) -> None:
    assert classification(prediction, answer, classes) == pytest.approx(score)


@pytest.mark.parametrize(
    ("prediction", "answer", "score"),
    [
        ("Paragraph 12", "Paragraph 12", 1.0),
        ("12", "Paragraph 12", 1.0),
        ("Paragraph 1", "Paragraph 12", 0.0),
        ("Paragraph 3 or Paragraph 12", "Paragraph 12", 0.5),
        ("12, 12 and 7", "Paragraph 12", 2 / 3),
        ("Paragraph 012", "Paragraph 12", 0.0),
        ("none of them", "Paragraph 12", 0.0),
    ],
)
def test_retrieval(prediction: str, answer: str, score: float) -> None:
    assert retrieval(prediction, answer) == pytest.approx(score)


@pytest.mark.parametrize(
    ("prediction", "answer", "score"),
    [
        ("11", "11", 1.0),
        ("There are 11 paragraphs.", "11", 1.0),
        ("11 of 20", "11", 0.5),
        ("1", "11", 0.0),
        ("eleven", "11", 0.0),
        ("3 11 11 11", "11", 0.75),
    ],
)
def test_count(prediction: str, answer: str, score: float) -> None:
    assert count(prediction, answer) == pytest.approx(score)


@pytest.mark.parametrize(
    ("prediction", "answer", "score"),
    [
        ("x = 1", "x = 1", 1.0),
        ("abcd", "abce", 0.75),  # 2 * 3 / 8
        ("abc", "abcd", 0.86),  # 6 / 7, in hundredths
        ("# set x\nx = 1\ny = 2", "x = 1", 1.0),  # the first line that is no comment
        ("```python\nx = 1\n```", "x = 1", 1.0),
        ("\n\nx = 1", "x = 1", 1.0),
        ("// only a comment", "x = 1", 0.0),
        ("", "x = 1", 0.0),
        ("", "", 1.0),
        ("xy", "ab", 0.0),
    ],
)
def test_edit_similarity(prediction: str, answer: str, score: float) -> None:
    assert edit_similarity(prediction, answer) == pytest.approx(score)


def _record(*answers: str, classes: tuple[str, ...] | None = None) -> Record:
    return Record(0, "", "", answers, 1, "test", "en", classes, "1")


def test_the_best_of_all_answers_counts() -> None:
    assert score_record(TASKS["hotpotqa"], "Paris", _record("London", "Paris")) == 1.0
    assert score_record(TASKS["gov_report"], "a b", _record("x y", "b c", "a b")) == pytest.approx(1.0)


def test_only_the_first_line_counts_for_few_shot_tasks() -> None:
    completion = "\n\nParis\nQuestion: and then?"
    assert read_answer(TASKS["triviaqa"], completion) == "Paris"
    assert score_record(TASKS["triviaqa"], completion, _record("Paris")) == 1.0
    assert score_record(TASKS["hotpotqa"], "Paris\nQuestion and then", _record("Paris")) < 1.0
    assert {task.name for task in TASKS.values() if task.first_line} == {"trec", "triviaqa", "samsum"}


def test_classification_gets_the_record_s_classes() -> None:
    record = _record("Date", classes=("Date", "City"))
    assert score_record(TASKS["trec"], "Date\nCity", record) == 1.0
    with pytest.raises(RequestError, match="all_classes"):
        score_record(TASKS["trec"], "Date", _record("Date"))


def test_a_gold_answer_without_a_paragraph_is_an_error() -> None:
    with pytest.raises(RequestError, match="Paragraph N"):
        retrieval("Paragraph 1", "12")


def test_a_dataset_s_score_is_the_mean_in_percent() -> None:
    assert score_dataset([1.0, 0.0, 0.5, 1 / 3]) == 45.83


def test_every_task_has_a_metric_and_an_unknown_one_lists_all() -> None:
    assert {task.metric for task in TASKS.values()} == set(METRICS)
    with pytest.raises(RequestError) as caught:
        find_task("hotpot_qa")
    assert "did you mean 'hotpotqa'" in str(caught.value)
    assert all(name in str(caught.value) for name in TASKS)
