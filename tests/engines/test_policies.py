"""Policies as everybody else sees them: opened, described, held, reloaded."""

from pathlib import Path

import pytest

from proxy.core.verdicts import Action
from proxy.engines import Engine, open_policies
from proxy.errors import EngineFault
from tests.asked import Configured, opened, policy_says, team_rule, written


async def test_they_decide_in_our_own_words(tmp_path: Path) -> None:
    """F2, F3."""
    file = tmp_path / "rules.yaml"
    file.write_text(
        "org: {tools: {read: {effect: read, arguments: {id: {in_user_text: true}}}}, limits: {turn: {calls: 3}}}"
    )
    async with opened(Configured(data=file)) as policies:
        allowed, refused = await policy_says(policies, id="A1"), await policy_says(policies, id="B2")

        assert (allowed.fault, allowed.denials, allowed.revision) == ("", (), policies.revision)
        assert allowed.limits.turn.calls == 3
        assert allowed.limits.brakes.same_call_stop is None
        assert allowed.traits["read"].effect == "read"
        (denial,) = refused.denials
        assert (denial.code, denial.call, denial.layer, denial.action) == (
            "argument_rule",
            0,
            "org",
            Action.REASK,
        )
        assert denial.rule == "tools.read.arguments.id.in_user_text"


async def test_settings_choose_profile_and_folders(tmp_path: Path) -> None:
    rule = 'allowed_tools := {"read"} if input.phase'
    folder = written(tmp_path, team_rule(rule))
    async with opened(Configured((folder,), profile="strict")) as policies:
        assert (await policy_says(policies)).allowed_tools == frozenset({"read"})
        described = policies.describe()

    assert described.profile == "strict"
    assert "team.blue" in described.layers
    assert "callgate.team.blue" in described.packages
    assert "get_order" in described.tools
    assert described.revision
    assert [warning.severity for warning in described.warnings] == ["warning"]


async def test_policies_that_do_not_load_open_nothing(tmp_path: Path) -> None:
    """C034: there is no serving without policies."""
    with pytest.raises(EngineFault, match=r"rules\.rego:4"):
        await open_policies(Configured((written(tmp_path, team_rule("deny contains {")),)))


async def test_a_watch_may_be_put_around_the_engine() -> None:
    seen: list[Engine] = []

    def wrap(engine: Engine) -> Engine:
        seen.append(engine)
        return engine

    policies = await open_policies(Configured(), wrap)
    await policies.close()

    assert len(seen) == 1


async def test_the_place_of_a_failing_rule_goes_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C033: with rule and place."""
    rule = 'deny contains {"code": "x", "message": "m"} if {\n\tsome call in input.calls\n\tto_number(call.arguments.a) > 1\n}'
    async with opened(Configured((written(tmp_path, team_rule(rule)),))) as policies:
        decision = await policy_says(policies, a="12x")

    assert decision.fault
    assert any("rules.rego:5:" in record.getMessage() for record in caplog.records)
