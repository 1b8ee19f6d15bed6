"""`callgate explain`: which rule decides, and why."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.test_conversation_files import CHAT
from tests.typed import typed

if TYPE_CHECKING:
    from pathlib import Path


def test_a_refused_call_is_explained_with_the_line_of_the_rule(tmp_path: Path) -> None:
    """D5: by the shipped example, for one caller."""
    asked = ("--tool", "pay_invoice", "--arguments", '{"invoice_id": "I-7"}')
    done = typed("explain", *asked, "--team", "payments", "--role", "approver", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    assert 'pay_invoice {"invoice_id":"I-7"}: refused' in done.stdout
    assert "payments.rego:11: The amount is the one that the invoice shows" in done.stdout
    assert "rules.yaml:16: teams.payments.tools.pay_invoice.arguments.invoice_id.in_results_of" in done.stdout


def test_an_allowed_call_is_exit_code_0_and_programs_get_json(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(CHAT))
    done = typed("explain", "--history", "run.json", "--json", cwd=tmp_path)
    traced = typed("explain", "--history", "run.json", "--trace", "--claim", "a=1", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["refused"] is False
    assert "+   20     count(_closed) > 0" in traced.stdout


def test_policies_of_a_bundle_file_are_explained_with_their_lines(tmp_path: Path) -> None:
    """F2: what is explained is what would be loaded."""
    rule = (
        'package callgate.org\n\ndeny contains {"code": "never", "message": "m"} if input.phase == "calls"\n'
    )
    with tarfile.open(tmp_path / "mine.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("callgate/org/mine.rego")
        member.size = len(rule)
        archive.addfile(member, io.BytesIO(rule.encode()))
    (tmp_path / "callgate.yaml").write_text("policy: {bundle: {path: mine.tar.gz}}\n")
    done = typed("explain", "--tool", "read", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    assert "Denied by org: never (never)" in done.stdout
    assert "callgate/org/mine.rego:3: deny contains" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--phase", "later"], 2, "--phase is one of"),
        (["--tool", "x", "--arguments", "{"], 2, "--arguments"),
        (["--tool", "x", "--arguments", "@nowhere.json"], 2, "nowhere.json"),
        (["--history", "nowhere.json"], 2, "nowhere.json"),
        (["--claim", "x"], 2, "name=value"),
        (["--tool", "x", "--arguments", '{"a": "\\u0000"}'], 1, "cannot be judged"),
    ],
)
def test_what_cannot_be_explained_is_said(
    tmp_path: Path, arguments: list[str], code: int, complaint: str
) -> None:
    done = typed("explain", *arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
