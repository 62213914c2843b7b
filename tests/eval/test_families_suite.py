"""`python -m eval families`, on two of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.__main__ import main
from eval.suites import families


def test_a_row_says_what_a_family_does_and_how_far_it_is_from_the_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {name: families.FAMILIES[name] for name in ("gpt2", "bloom")}
    monkeypatch.setattr(families, "FAMILIES", rows)
    assert main(["families", "--out", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "report.md").read_text().splitlines()
    assert [cell.strip() for cell in lines[2].split("|")[1:5]] == ["gpt2", "learned", "reserved", "segments, assembled"]
    assert [cell.strip() for cell in lines[3].split("|")[1:5]] == ["bloom", "ALiBi", "compact", "assembled"]
    for line in lines[2:]:
        error, rounding, diverged = (cell.strip() for cell in line.split("|")[5:8])
        assert 0 < float(error) < 1e-3 and 0 < float(rounding) < 1e-3
        assert diverged == "none" or diverged.startswith("token ")
