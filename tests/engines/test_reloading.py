"""Policies take the place of others: all or nothing, and a turn ends under those that it began under."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.engines import Bundle, Engine, Held, Policies, load_bundle
from proxy.errors import EngineFault
from tests.asked import (
    GOOD,
    Configured,
    ScriptedEngine,
    opened,
    policy_says,
    shipped,
    team_rule,
    written,
)

CLOSED = 'deny contains {"code": "closed", "message": "No."}'
# Never ends within a deadline, is stopped by nothing in the language, and needs no memory to speak of.
ENDLESS = """deny contains {"code": "endless", "message": "x"} if {
	input.identity.user == "sample"
	some a in numbers.range(1, 3000)
	some b in numbers.range(1, 3000)
	some c in numbers.range(1, 3000)
	a + b + c < 0
}"""


class Shelf:
    """Bundles, and the engines that were started with them."""

    def __init__(self) -> None:
        self.bundle = shipped()
        self.engines: dict[str, ScriptedEngine] = {}

    async def start(self, bundle: Bundle) -> Engine:
        engine = ScriptedEngine(GOOD | {"deny": [_denial(bundle.revision)]}, revision=bundle.revision)
        self.engines[bundle.revision] = engine
        return engine

    async def policies(self) -> Policies:
        engine = await self.start(self.bundle)
        return Policies(engine, self.bundle, start=self.start)

    def closed(self) -> list[str]:
        return [name for name, engine in self.engines.items() if engine.closed]

    def put(self, revision: str) -> None:
        self.bundle = replace(shipped(), revision=revision)


def _denial(code: str) -> dict[str, object]:
    code = f"r_{code}"
    return {"code": code, "call": None, "message": "m", "action": "reask", "layer": "org", "rule": code}


async def codes(policies: Policies | Held) -> list[str]:
    return [denial.code for denial in (await policy_says(policies)).denials]


async def test_a_turn_ends_under_the_policies_that_it_began_under() -> None:
    """C034, F2: nothing is mixed; an engine is closed when its last turn has let go."""
    shelf = Shelf()
    shelf.put("one")
    policies = await shelf.policies()
    first, second = policies.hold(), policies.hold()
    shelf.put("two")
    await policies.reload(shelf.bundle)
    later = policies.hold()

    assert [await codes(each) for each in (first, second, later)] == [["r_one"], ["r_one"], ["r_two"]]
    first.let_go()
    first.let_go()
    await asyncio.sleep(0)
    assert shelf.closed() == []
    second.let_go()
    later.let_go()
    await asyncio.sleep(0)
    assert shelf.closed() == ["one"]
    await policies.close()
    assert shelf.closed() == ["one", "two"]


async def test_an_engine_that_nobody_holds_is_closed_at_once() -> None:
    shelf = Shelf()
    shelf.put("one")
    policies = await shelf.policies()
    shelf.put("two")
    await policies.reload(shelf.bundle)
    await policies.close()

    assert all(engine.closed for engine in shelf.engines.values())


async def test_closing_ends_the_engines_of_old_turns_too() -> None:
    shelf = Shelf()
    shelf.put("one")
    policies = await shelf.policies()
    held = policies.hold()
    shelf.put("two")
    await policies.reload(shelf.bundle)
    await policies.close()
    held.let_go()

    assert all(engine.closed for engine in shelf.engines.values())


async def test_reloads_at_once_are_one_after_the_other() -> None:
    """The last one said is in force."""
    shelf = Shelf()
    shelf.put("one")
    policies = await shelf.policies()
    bundles = [replace(shipped(), revision=name) for name in ("two", "three", "four")]
    await asyncio.gather(*(policies.reload(bundle) for bundle in bundles))
    await policies.close()

    assert policies.revision == "four"
    assert all(engine.closed for engine in shelf.engines.values())


async def test_without_a_way_to_reload_nothing_changes() -> None:
    policies = Policies(ScriptedEngine(GOOD), shipped())
    await policies.reload()
    await policies.reload(replace(shipped(), revision="other"))

    assert policies.revision == "r1"


# --- with real engines ----------------------------------------------------------------------------------------------


async def test_newer_policies_are_read_where_the_old_ones_were(tmp_path: Path) -> None:
    """C034."""
    folder = written(tmp_path, team_rule('deny contains {"code": "one", "message": "m"}'))
    async with opened(Configured((folder,))) as policies:
        before = policies.revision
        await policies.reload()
        assert policies.revision == before

        written(tmp_path, team_rule('deny contains {"code": "two", "message": "m"}'))
        await policies.reload()
        decision = await policy_says(policies)
        assert [denial.code for denial in decision.denials] == ["two"]
        assert decision.revision == policies.revision != before
        assert policies.describe().revision == policies.revision

        written(tmp_path, team_rule("deny contains {"))
        with pytest.raises(EngineFault):
            await policies.reload()
        assert "rules.rego:4" in policies.problem
        assert [denial.code for denial in (await policy_says(policies)).denials] == ["two"]

        written(tmp_path, team_rule('deny contains {"code": "two", "message": "m"}'))
        await policies.reload()
        assert policies.problem == ""


async def test_policies_that_load_but_do_not_decide_stay_out(tmp_path: Path) -> None:
    folder = written(tmp_path, team_rule('deny contains {"code": "one", "message": "m"}'))
    async with opened(Configured((folder,))) as policies:
        written(tmp_path, team_rule('deny contains {"code": lower("Not A Code"), "message": "m"}'))
        with pytest.raises(EngineFault, match="no code"):
            await policies.reload()

        assert [denial.code for denial in (await policy_says(policies)).denials] == ["one"]


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ('deny contains {"code": "x", "message": undefined_name}', r"rules\.rego:3:\d+: .*undefined_name"),
        ('deny contains {"code": "X y", "message": "m"} if input.phase == lower("CALLS")', "no code"),
        ('deny contains {"code": "x", "message": input.phase, "call": to_number("12x")}', "could not parse"),
        (ENDLESS, "too long"),
    ],
)
async def test_policies_that_fail_leave_the_old_ones_in_force(
    tmp_path: Path, rule: str, complaint: str
) -> None:
    """C034: compile, decide samples, swap; all or nothing."""
    async with opened(Configured((), deadline_seconds=0.5)) as policies:
        old = policies.revision
        with pytest.raises(EngineFault, match=complaint):
            await policies.reload(_unchecked(tmp_path, rule))

        assert policies.revision == old
        assert (await policy_says(policies)).denials == ()


def _unchecked(folder: Path, rule: str) -> Bundle:
    """A bundle that lint would not let pass: the last gate is the engine's own."""
    good = load_bundle([written(folder, team_rule(CLOSED))])
    (file,) = [file for file in good.embedded if "team/blue" in file]
    text = f"package callgate.team.blue\n\n{rule}\n"
    return replace(good, embedded={**good.embedded, file: type(good.embedded[file])(text)}, revision="bad")


async def test_a_storm_of_reloads_gives_no_decision_that_is_none(tmp_path: Path) -> None:
    """C034: each decision is made under one version."""
    first, second = shipped(), load_bundle([written(tmp_path, team_rule(CLOSED))])
    async with opened(Configured()) as policies:
        asking = asyncio.gather(*(policy_says(policies) for _ in range(40)))
        for bundle in (second, first, second):
            await policies.reload(bundle)
        decisions = await asking

    said = {tuple(denial.code for denial in decision.denials) for decision in decisions}
    assert said <= {(), ("closed",)}
    assert not any(decision.fault for decision in decisions)
