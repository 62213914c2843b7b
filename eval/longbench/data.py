"""Where LongBench's files come from: a folder, `data.zip`, or that file fetched from the Hub.

No dataset script is run: `datasets` 4 and later refuse LongBench's.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from eval.longbench.record import Record, parse_records
from eval.longbench.tasks import TASKS, find_task
from promptcache.errors import RequestError

HUB_REPO = "THUDM/LongBench"
HUB_FILE = "data.zip"


def load_dataset(name: str, data: Path | None = None) -> tuple[Record, ...]:
    """All records of one dataset, in the order of its file.

    `data` is a folder with `<name>.jsonl` in it or in its subfolder `data`, a folder with `data.zip`, or the zip file
    itself; None fetches the zip from the Hub or finds it in the Hub's cache. Raises RequestError: with the valid names
    for an unknown dataset, with what is there for a missing one.
    """
    task = find_task(name)
    place = fetch_zip() if data is None else Path(data)
    if place.is_dir():
        for file in (place / f"{task.name}.jsonl", place / "data" / f"{task.name}.jsonl"):
            if file.is_file():
                return parse_records(file.read_bytes(), str(file))
        if not (place / HUB_FILE).is_file():
            present = {file.stem for folder in (place, place / "data") for file in folder.glob("*.jsonl")}
            raise _missing(task.name, place, present)
        place /= HUB_FILE
    return _from_zip(task.name, place)


def fetch_zip() -> Path:
    """LongBench's `data.zip` in the Hub's cache, downloaded when it is not there yet.

    Raises RequestError when it is neither there nor to be had.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(HUB_REPO, HUB_FILE, repo_type="dataset"))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise RequestError(
            f"{HUB_FILE} of {HUB_REPO} could not be fetched: {error}",
            hint="download it elsewhere and pass its path, or a folder of JSONL files, with --data",
        ) from error


def _from_zip(name: str, file: Path) -> tuple[Record, ...]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = {PurePosixPath(member).name: member for member in archive.namelist()}
            if f"{name}.jsonl" not in members:
                raise _missing(name, file, {PurePosixPath(member).stem for member in members})
            member = members[f"{name}.jsonl"]
            return parse_records(archive.read(member), f"{file}:{member}")
    except FileNotFoundError as error:
        raise RequestError(
            f"no LongBench data at {file}", hint="--data takes a folder of JSONL files or LongBench's data.zip"
        ) from error
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise RequestError(
            f"{file} cannot be read as a zip file: {error}", hint="fetch LongBench's data.zip again"
        ) from error


def _missing(name: str, place: Path, present: set[str]) -> RequestError:
    known = [task for task in TASKS if task in present]
    return RequestError(
        f"no {name}.jsonl in {place}",
        hint=f"it holds {', '.join(known)}" if known else "it holds no LongBench file; a file is named <dataset>.jsonl",
    )
