"""The command line as people use it: real processes, exit codes, errors with a place."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from typing import IO, TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from proxy import __version__
from proxy.cli import app

if TYPE_CHECKING:
    from pathlib import Path

CALLGATE = [sys.executable, "-m", "proxy"]


def _run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        [*CALLGATE, *arguments],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _until(word: str, lines: IO[str]) -> str:
    """What is written, up to the line that begins with this word."""
    text = ""
    for line in iter(lines.readline, ""):
        text += line
        if line.startswith(word):
            break
    return text


def test_check_says_well_and_where_to_point_an_agent(tmp_path: Path) -> None:
    """F1: nothing configured is a working configuration."""
    done = _run("check", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "Settings and policies are well." in done.stdout
    assert "base URL http://127.0.0.1:8788/v1" in done.stdout
    assert "guarded   POST   /v1/chat/completions  (openai_chat)" in done.stdout


def test_check_names_file_line_and_column_of_a_bad_setting(tmp_path: Path) -> None:
    """An editor can jump to it; what was probably meant is said."""
    (tmp_path / "callgate.yaml").write_text("listen:\n  prot: 1\n")

    done = _run("check", cwd=tmp_path)

    assert done.returncode == 2
    assert "callgate.yaml:2:3" in done.stderr
    assert "port" in done.stderr


def test_check_names_file_and_line_of_bad_rules(tmp_path: Path) -> None:
    """F3: rule data is checked like code."""
    (tmp_path / "rules.yaml").write_text("org:\n  allowed_tool: [x]\n")

    done = _run("check", cwd=tmp_path, CALLGATE_POLICY__DATA="rules.yaml")

    assert done.returncode == 1
    assert "rules.yaml:2" in done.stderr
    assert "allowed_tools" in done.stderr


def test_serve_says_what_it_guards_serves_and_drains_on_a_signal(tmp_path: Path) -> None:
    """F1: where to point the agent stands in the first lines; SIGTERM ends with code 0."""
    served = subprocess.Popen(
        [*CALLGATE, "serve", "--port", "0", "--profile", "strict"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "CALLGATE_ADMIN__PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with served:
        assert served.stdout is not None
        text = _until("audit", served.stdout)
        admin = re.search(r"admin +(http://\S+)", text)
        assert admin, text
        with urllib.request.urlopen(f"{admin[1]}/healthz", timeout=10) as answer:
            assert answer.status == 200
        served.send_signal(signal.SIGTERM)
        _, complaints = served.communicate(timeout=30)

    assert served.returncode == 0, complaints
    assert "Callgate guards agents at http://127.0.0.1:" in text
    assert "strict: only tools that rules list" in text


def test_serve_with_bad_rules_does_not_start(tmp_path: Path) -> None:
    """F3: fail closed: no policy, no port."""
    (tmp_path / "rules.yaml").write_text("org: 1\n")

    done = _run(
        "serve", "--port", "0", cwd=tmp_path, CALLGATE_POLICY__DATA="rules.yaml", CALLGATE_ADMIN__PORT="0"
    )

    assert done.returncode == 1
    assert "rules.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_rego_tests_run_and_a_failing_one_is_named_with_its_line(tmp_path: Path) -> None:
    """F3: shipped tests and one's own, by one command."""
    folder = tmp_path / "mine" / "callgate" / "org"
    folder.mkdir(parents=True)
    (folder / "mine_test.rego").write_text("package callgate.org_test\n\ntest_allows_nothing if 1 == 2\n")

    shipped = _run("test", cwd=tmp_path)
    mine = _run("test", "mine", cwd=tmp_path)

    assert shipped.returncode == 0, shipped.stderr
    assert shipped.stdout.endswith(" passed, 0 failed\n")
    assert mine.returncode == 1
    assert "mine_test.rego:3" in mine.stderr
    assert mine.stdout.endswith(" 1 failed\n")


def test_a_signal_puts_new_rules_in_force_and_bad_ones_leave_the_old(tmp_path: Path) -> None:
    """F3: all or nothing; readiness says why newer policies were refused."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("org: {denied_tools: [a]}\n")
    served = subprocess.Popen(
        [*CALLGATE, "serve", "--port", "0"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "CALLGATE_ADMIN__PORT": "0", "CALLGATE_POLICY__DATA": "rules.yaml"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with served:
        assert served.stdout is not None
        assert served.stderr is not None
        text = _until("admin", served.stdout)
        admin = re.search(r"admin +(http://\S+)", text)
        assert admin, text

        def notes_after(content: str, said: str) -> dict[str, str]:
            rules.write_text(content)
            served.send_signal(signal.SIGHUP)
            assert served.stderr is not None
            assert any(said in line for line in served.stderr)
            with urllib.request.urlopen(f"{admin[1]}/readyz", timeout=10) as answer:
                found: dict[str, str] = json.load(answer)["notes"]
                return found

        bad = notes_after("org: {denied_tool: [b]}\n", "newer policies are refused")
        good = notes_after("org: {denied_tools: [b]}\n", "is in force")
        served.send_signal(signal.SIGTERM)
        served.communicate(timeout=30)

    assert "denied_tools" in bad["policy"]
    assert good == {}


def test_replay_fails_where_a_good_run_would_have_been_altered(tmp_path: Path) -> None:
    """A pipeline can stop on it."""
    messages: list[object] = [{"role": "user", "content": "Go."}]
    for number in range(6):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "find", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "[]"})
    messages.append({"role": "assistant", "content": "Nothing."})
    (tmp_path / "runs.jsonl").write_text(json.dumps({"id": "r", "reward": 1.0, "messages": messages}))
    (tmp_path / "tools.json").write_text('[{"type":"function","function":{"name":"find"}}]')

    done = _run("replay", "runs.jsonl", "--tools", "tools.json", cwd=tmp_path)

    assert done.returncode == 1
    assert "progress.same_call" in done.stdout
    assert "reward 1: 1 runs, 1 flagged, 1 altered." in done.stdout


@pytest.mark.parametrize("arguments", [["replay", "nowhere.jsonl"], ["serve", "--config", "nowhere.yaml"]])
def test_a_file_that_is_not_there_is_named_without_a_traceback(tmp_path: Path, arguments: list[str]) -> None:
    """Wrong usage is exit code 2."""
    done = _run(*arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_command_has_help_in_a_sentence() -> None:
    """Whoever types a command and --help learns what it does."""
    runner = CliRunner()

    assert runner.invoke(app, ["version"]).stdout.strip() == __version__
    for command in ("serve", "check", "test", "demo", "replay"):
        shown = runner.invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert "--" in shown.stdout
