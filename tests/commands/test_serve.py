"""`callgate serve`: a real process, its signals and its end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from typing import TYPE_CHECKING

from tests.typed import CALLGATE, typed, until

if TYPE_CHECKING:
    from pathlib import Path


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
        text = until("audit", served.stdout)
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

    done = typed(
        "serve", "--port", "0", cwd=tmp_path, CALLGATE_POLICY__DATA="rules.yaml", CALLGATE_ADMIN__PORT="0"
    )

    assert done.returncode == 1
    assert "rules.yaml" in done.stderr
    assert "Traceback" not in done.stderr


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
        text = until("admin", served.stdout)
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
