"""A peer in its own process: it answers, fails with its reason, and ends."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from eval.peers.process import PeerError, PeerProcess

_OPEN = {"do": "open", "model": "m", "dtype": "float32", "max_tokens": 9, "threads": 1}


def _fake(log: Path) -> PeerProcess:
    return PeerProcess([sys.executable, "-m", "tests.eval.fake_peer"], dict(os.environ), log)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_it_answers_what_it_is_asked_and_ends(tmp_path: Path) -> None:
    with _fake(tmp_path / "log") as peer:
        with peer.awake():
            opened = peer.ask({**_OPEN, "settings": {"ttft_ms": 5}}, timeout_s=60)
            assert opened == {"version": "fake 1 in float32, room 9"}
            assert peer.ask({"do": "store", "ids": [1, 2, 3]}, timeout_s=60)["ms"] >= 0
            answer = peer.ask({"do": "answer", "ids": [1, 2, 3, 4], "stored": 3, "max_new_tokens": 2}, timeout_s=60)
            assert answer == {"token_ids": [7, 7], "reused": 2, "ttft_ms": 5, "later_ms": [2.0]}
            assert peer.ask({"do": "ping"}, timeout_s=60) == {}
        pid = peer._process.pid
    assert peer._process.returncode is not None and not Path(f"/proc/{pid}").exists()
    assert "what a library prints" in (tmp_path / "log").read_text()


def test_between_questions_it_stands_still(tmp_path: Path) -> None:
    with _fake(tmp_path / "log") as peer:
        with peer.awake():
            peer.ask({**_OPEN, "settings": {}}, timeout_s=60)
        for _ in range(100):
            if _state(peer._process.pid) == "T":
                break
            time.sleep(0.02)
        assert _state(peer._process.pid) == "T"
        with peer.awake():
            assert peer.ask({"do": "ping"}, timeout_s=60) == {}


def test_what_a_peer_started_ends_with_it(tmp_path: Path) -> None:
    with _fake(tmp_path / "log") as peer:
        with peer.awake():
            peer.ask({**_OPEN, "settings": {"child": True}}, timeout_s=60)
        group = peer._process.pid
        assert _members(group) > 1
    for _ in range(100):
        if not _members(group):
            break
        time.sleep(0.02)
    assert _members(group) == 0


def _members(group: int) -> int:
    """Processes of a group that have not ended."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        found += int(its_group) == group and state != "Z"
    return found


@pytest.mark.parametrize(
    ("fail", "message"), [("open", "ImportError: no module named quick"), ("exit", "its process ended: what a library")]
)
def test_why_it_cannot_be_opened_is_told(tmp_path: Path, fail: str, message: str) -> None:
    with _fake(tmp_path / "log") as peer, peer.awake(), pytest.raises(PeerError, match=message):
        peer.ask({**_OPEN, "settings": {"fail": fail}}, timeout_s=60)


def test_no_answer_in_time_is_told(tmp_path: Path) -> None:
    start = time.perf_counter()
    with _fake(tmp_path / "log") as peer, peer.awake():
        peer.ask({**_OPEN, "settings": {"fail": "late"}}, timeout_s=60)
        peer.ask({"do": "store", "ids": []}, timeout_s=60)
        with pytest.raises(PeerError, match="no answer to 'answer' in 0 s"):
            peer.ask({"do": "answer", "ids": [1], "stored": 0, "max_new_tokens": 1}, timeout_s=0.2)
        peer._process.kill()
    assert time.perf_counter() - start < 50


def test_a_request_that_fails_leaves_it_going(tmp_path: Path) -> None:
    with _fake(tmp_path / "log") as peer, peer.awake():
        peer.ask({**_OPEN, "settings": {"fail": "answer"}}, timeout_s=60)
        peer.ask({"do": "store", "ids": []}, timeout_s=60)
        with pytest.raises(PeerError, match="ValueError: out of blocks"):
            peer.ask({"do": "answer", "ids": [1], "stored": 0, "max_new_tokens": 1}, timeout_s=60)
        assert peer.ask({"do": "ping"}, timeout_s=60) == {}


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="absent cannot be started"):
        PeerProcess([str(tmp_path / "absent")], {}, tmp_path / "log")
