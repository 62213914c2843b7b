"""The LongBench records that lie beside the project on some machines."""

from __future__ import annotations

from pathlib import Path

import pytest

LONGBENCH = Path(__file__).resolve().parents[3] / "shared" / "data" / "longbench"

needs_longbench = pytest.mark.skipif(not LONGBENCH.is_dir(), reason="no LongBench data in ../shared/data/longbench")
