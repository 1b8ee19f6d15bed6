"""Policies as everybody else sees them: they answer, and never raise."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from proxy.core.messages import Message, Request, Role, Tool, ToolCall, Turn
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step
from proxy.core.verdicts import Action, Decision
from proxy.engines import Engine, Policies, open_policies
from proxy.errors import EngineFault
from tests.asked import shipped, team_rule, written

IDENTITY = Identity(team="blue", agent="bot", user="ann")
REQUEST = Request("test", "m", (Message(Role.USER, "Order A1, please."),), (Tool("read"), Tool("write")))
RUN = Run("r", "k", 1.0)
GOOD: dict[str, object] = {"deny": [], "allowed_tools": None, "limits": {}, "tools": {}, "shadow": []}


@dataclass
class Settings:
    """As the settings tree has them."""

    folders: tuple[Path, ...] = ()
    data: Path | None = None
    profile: Literal["starter", "strict"] = "starter"
    deadline_seconds: float = 1.0
    workers: int = 1


@dataclass
class ScriptedEngine:
    """Gives what it is told to, and remembers what it was asked."""

    answer: object
    asked: list[Mapping[str, object]] = field(default_factory=list)
    revision: str = "r1"

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        self.asked.append(document)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # whatever it was told

    async def close(self) -> None:
        self.revision = "closed"


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Policies]:
    policies = await open_policies(settings)
    try:
        yield policies
    finally:
        await policies.close()


async def of(policies: Policies, name: str = "read", **arguments: object) -> Decision:
    call = ToolCall("c", name, "{}")
    return await policies.decide("calls", IDENTITY, REQUEST, RUN, [call], [arguments], now=2.0)


async def test_they_decide_in_our_own_words(tmp_path: Path) -> None:
    """F2, F3."""
    file = tmp_path / "rules.yaml"
    file.write_text(
        "org: {tools: {read: {effect: read, arguments: {id: {in_user_text: true}}}}, limits: {turn: {calls: 3}}}"
    )
    async with opened(Settings(data=file)) as policies:
        allowed, refused = await of(policies, id="A1"), await of(policies, id="B2")

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
    async with opened(Settings((folder,), profile="strict")) as policies:
        assert (await of(policies)).allowed_tools == frozenset({"read"})
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
        await open_policies(Settings((written(tmp_path, team_rule("deny contains {")),)))


async def test_a_watch_may_be_put_around_the_engine() -> None:
    seen: list[Engine] = []

    def wrap(engine: Engine) -> Engine:
        seen.append(engine)
        return engine

    policies = await open_policies(Settings(), wrap)
    await policies.close()

    assert len(seen) == 1


@pytest.mark.parametrize(
    "answer",
    [
        EngineFault("took too long"),
        RuntimeError("a mistake"),
        {},
        GOOD | {"deny": "yes"},
        None,
        "<undefined>",
    ],
)
async def test_whatever_breaks_is_a_decision_that_refuses(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """C033. C4: what the model cannot mend goes to people."""
    decision = await of(Policies(ScriptedEngine(answer), shipped()))

    assert decision.fault
    assert not decision.unjudged
    assert decision.revision == "r1"
    assert [record.levelno for record in caplog.records][-1] == logging.ERROR


@pytest.mark.parametrize("value", [float("nan"), "a\0b", "x" * 300_000])
async def test_arguments_that_cannot_be_judged_refuse(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """C4: whoever made them can mend them. A model can make them, so they are no error of this system."""
    engine = ScriptedEngine(GOOD)
    decision = await of(Policies(engine, shipped()), x=value)

    assert decision.fault
    assert decision.unjudged
    assert engine.asked == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_the_place_of_a_failing_rule_goes_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C033: with rule and place."""
    rule = 'deny contains {"code": "x", "message": "m"} if {\n\tsome call in input.calls\n\tto_number(call.arguments.a) > 1\n}'
    async with opened(Settings((written(tmp_path, team_rule(rule)),))) as policies:
        decision = await of(policies, a="12x")

    assert decision.fault
    assert any("rules.rego:5:" in record.getMessage() for record in caplog.records)


async def test_results_are_in_the_document_only_for_layers_that_read_them() -> None:
    step = Step(1, 1, 1, "c", "read", "{}", "f", StepStatus.FOUND, result="secret")
    run = Run("r", "k", 1.0, steps=(step,))
    engine = ScriptedEngine(GOOD)
    policies = Policies(engine, shipped())
    for team in ("blue", "payments"):
        await policies.decide("request", Identity(team=team), REQUEST, run, now=2.0)

    assert ["secret" in str(document) for document in engine.asked] == [False, True]


async def test_an_answer_is_asked_about_too() -> None:
    engine = ScriptedEngine(GOOD)
    await Policies(engine, shipped()).decide(
        "answer", IDENTITY, REQUEST, RUN, now=2.0, answer=Turn(text="Done.")
    )

    assert engine.asked[0]["answer"] == {"text": "Done.", "truncated": False}


async def test_newer_policies_are_read_where_the_old_ones_were(tmp_path: Path) -> None:
    """C034."""
    folder = written(tmp_path, team_rule('deny contains {"code": "one", "message": "m"}'))
    async with opened(Settings((folder,))) as policies:
        before = policies.revision
        await policies.reload()
        assert policies.revision == before

        written(tmp_path, team_rule('deny contains {"code": "two", "message": "m"}'))
        await policies.reload()
        decision = await of(policies)
        assert [denial.code for denial in decision.denials] == ["two"]
        assert decision.revision == policies.revision != before
        assert policies.describe().revision == policies.revision

        written(tmp_path, team_rule("deny contains {"))
        with pytest.raises(EngineFault):
            await policies.reload()
        assert "rules.rego:4" in policies.problem
        assert [denial.code for denial in (await of(policies)).denials] == ["two"]

        written(tmp_path, team_rule('deny contains {"code": "two", "message": "m"}'))
        await policies.reload()
        assert policies.problem == ""


async def test_policies_that_load_but_do_not_decide_stay_out(tmp_path: Path) -> None:
    folder = written(tmp_path, team_rule('deny contains {"code": "one", "message": "m"}'))
    async with opened(Settings((folder,))) as policies:
        written(tmp_path, team_rule('deny contains {"code": lower("Not A Code"), "message": "m"}'))
        with pytest.raises(EngineFault, match="no code"):
            await policies.reload()

        assert [denial.code for denial in (await of(policies)).denials] == ["one"]


async def test_without_a_way_to_reload_nothing_changes() -> None:
    policies = Policies(ScriptedEngine(GOOD), shipped())
    await policies.reload()

    assert policies.revision == "r1"
