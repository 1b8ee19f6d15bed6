"""`callgate learn`: a least-privilege policy from recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import need
from tests.test_conversation_files import CHAT, STEP
from tests.typed import typed

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "trajectories" / "airline.jsonl"


@pytest.fixture(name="runs")
def _runs(tmp_path: Path) -> Path:
    file = tmp_path / "runs.jsonl"
    bare = {"messages": CHAT["messages"], "id": "run-8", "reward": 0}
    file.write_text(f"{json.dumps(CHAT)}\n{json.dumps(bare)}\n")
    return file


def test_what_is_learned_loads_and_refuses_nothing_of_what_was_seen(tmp_path: Path, runs: Path) -> None:
    """D1, D2: rule data on standard output, what it means on standard error."""
    done = typed("learn", runs.name, "--team", "blue", "--output", "learned.yaml", cwd=tmp_path)
    (tmp_path / "callgate.yaml").write_text("policy: {data: learned.yaml}\n")
    checked = typed("check", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "2 calls of these runs: 0 refused, 0 beyond a limit, in 0 of 2 runs." in done.stderr
    assert checked.returncode == 0, checked.stderr
    text = (tmp_path / "learned.yaml").read_text()
    assert text.index('"blue":') > 0
    assert text.index('"bot":') > 0


def test_two_runs_of_one_name_do_not_add_up_to_one_long_turn(tmp_path: Path) -> None:
    """E1: limits are never wider than seen."""
    (tmp_path / "runs.jsonl").write_text(f"{json.dumps(CHAT)}\n{json.dumps(CHAT)}\n")
    done = typed("learn", "runs.jsonl", "--json", cwd=tmp_path)

    assert json.loads(done.stdout)["agents"]["bot"]["limits"]["turn"]["calls"] == 1


def test_json_rego_good_runs_and_audit_files(tmp_path: Path, runs: Path) -> None:
    journal = tmp_path / "audit.jsonl"
    journal.write_text(json.dumps(STEP | {"tool": "look"}) + "\n")
    good = typed("learn", runs.name, "--good", "--json", cwd=tmp_path)
    both = typed("learn", runs.name, journal.name, "--json", cwd=tmp_path)
    rego = typed("learn", runs.name, "--rego", "mine", cwd=tmp_path)
    tested = typed("test", "mine", cwd=tmp_path)

    assert list(json.loads(good.stdout)) == ["agents"]
    assert json.loads(both.stdout)["org"]["allowed_tools"] == ["get", "look"]
    assert rego.returncode == 0, rego.stderr
    assert tested.returncode == 0, tested.stderr
    assert (tmp_path / "mine" / "callgate" / "agent" / "bot" / "learned_test.rego").is_file()


def test_a_name_that_leads_elsewhere_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(CHAT | {"agent": "../../up"}))
    done = typed("learn", "runs.jsonl", "--rego", "deep/mine", cwd=tmp_path)

    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]


@pytest.mark.parametrize(
    ("text", "code", "complaint"),
    [
        (None, 2, "nowhere.jsonl"),
        ('{"x": 1}', 2, "line 1: no conversation in any dialect"),
        (json.dumps({"messages": [{"role": "user", "content": "hi"}]}), 1, "there is no call in these runs"),
    ],
)
def test_what_cannot_be_learned_from_is_said(
    tmp_path: Path, text: str | None, code: int, complaint: str
) -> None:
    if text is not None:
        (tmp_path / "nowhere.jsonl").write_text(text)
    done = typed("learn", "nowhere.jsonl", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_hundred_real_runs_keep_to_what_was_learned_from_them(tmp_path: Path) -> None:
    """D1, D2: and of runs that were held out, few calls would be refused."""
    need(RECORDED.is_file(), "no recordings beside the checkout")
    whole = typed("learn", str(RECORDED), "-o", "all.yaml", cwd=tmp_path)
    half = typed("learn", str(RECORDED), "--hold-out", "50", "-o", "half.yaml", cwd=tmp_path)

    assert whole.returncode == 0, whole.stderr
    assert "577 calls of these runs: 0 refused, 0 beyond a limit" in whole.stderr
    assert "281 calls of runs that were held out: 19 refused, 6 beyond a limit" in half.stderr
