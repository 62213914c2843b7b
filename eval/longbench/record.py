"""One line of a LongBench file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from promptcache.errors import RequestError
from promptcache.source import Source, Span


@dataclass(frozen=True)
class Record:
    """A sample with LongBench's fields; texts are as in the file, to the byte.

    `index` counts the lines of its file from 0, `length` is LongBench's own count of words, `id` is its `_id`, and
    `all_classes` is None except for classification.
    """

    index: int
    input: str
    context: str
    answers: tuple[str, ...]
    length: int
    dataset: str
    language: str
    all_classes: tuple[str, ...] | None
    id: str


def parse_records(data: bytes, name: str) -> tuple[Record, ...]:
    """All records of a JSONL file, in its order. `name` is the file's name in errors.

    Raises RequestError that names file and line for a line that is not a record.
    """
    # Only the line feed ends a line: str.splitlines would also cut at separators that stand inside texts.
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return tuple(_parse(line, index, _Place(name, number)) for index, (number, line) in enumerate(numbered))


@dataclass(frozen=True)
class _Place:
    name: str
    line: int

    def error(self, message: str) -> RequestError:
        return RequestError(
            message,
            hint="each line is one JSON object with input, context, answers, length, dataset, language, all_classes,"
            " _id",
            span=Span(Source(self.name, ""), self.line, 1),
        )


def _parse(line: bytes, index: int, place: _Place) -> Record:
    try:
        fields = json.loads(line.decode("utf-8"))
        # JSON can spell half of a surrogate pair, which is no text that a tokenizer could take.
        json.dumps(fields, ensure_ascii=False).encode("utf-8")
    except (UnicodeError, json.JSONDecodeError, RecursionError) as error:
        raise place.error(f"not a line of JSON in UTF-8: {error}") from error
    if not isinstance(fields, dict):
        raise place.error(f"a JSON {type(fields).__name__} where a record should be")
    classes = fields.get("all_classes")
    return Record(
        index=index,
        input=_field(fields, "input", str, place),
        context=_field(fields, "context", str, place),
        answers=_texts(fields.get("answers"), "answers", place),
        length=_field(fields, "length", int, place),
        dataset=_field(fields, "dataset", str, place),
        language=_field(fields, "language", str, place),
        all_classes=None if classes is None else _texts(classes, "all_classes", place),
        id=_field(fields, "_id", str, place),
    )


def _field(fields: dict[str, Any], name: str, kind: type, place: _Place) -> Any:
    if name not in fields:
        raise place.error(f"the record has no field {name!r}")
    if type(fields[name]) is not kind:
        raise place.error(f"field {name!r} is {type(fields[name]).__name__} where {kind.__name__} should be")
    return fields[name]


def _texts(value: object, name: str, place: _Place) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise place.error(f"field {name!r} is not a list of one or more strings")
    return tuple(value)
