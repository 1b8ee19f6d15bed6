"""The engine that asks a real OPA server: what it decides, and what becomes of a server that fails."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxy.engines import Bundle, Engine, load_bundle
from proxy.engines.opa import OpaEngines
from proxy.engines.opa_wire import OpaServer, ServerFault
from proxy.engines.samples import sample_inputs
from proxy.errors import EngineFault
from tests.asked import shipped, team_rule, written
from tests.real_opa import RealOpa, answering, free_port, real_opa, silent

CLOSED = 'deny contains {"code": "closed", "message": "No."}'
LONG = 30.0
"""Seconds for what is to succeed on a slow machine."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def configured(url: str, **changed: Any) -> OpaServer:
    return OpaServer(**{"url": url, "timeout": LONG, "write_wait": LONG, **changed})


@asynccontextmanager
async def engines(url: str, clock: Clock | None = None, **changed: Any) -> AsyncIterator[OpaEngines]:
    made = OpaEngines(configured(url, **changed), *((clock, clock) if clock else ()))
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def engine(url: str, bundle: Bundle | None = None, **changed: Any) -> AsyncIterator[Engine]:
    async with engines(url, **changed) as made:
        started = await made.start(bundle or shipped())
        try:
            yield started
        finally:
            await started.close()


def question(team: str = "sample") -> dict[str, Any]:
    """What is asked about a call."""
    samples = [sample for sample in sample_inputs(shipped()) if sample["phase"] == "calls"]
    return {**samples[0], "identity": {**samples[0]["identity"], "team": team}}


def team_bundle(folder: Path, body: str) -> Bundle:
    return load_bundle([written(folder, team_rule(body))])


def codes(decision: Mapping[str, Any]) -> list[str]:
    return [denial["code"] for denial in decision["deny"]]


# --- deciding -----------------------------------------------------------------------------------------------------


async def test_it_decides_over_tcp_and_over_a_socket(tmp_path: Path) -> None:
    """F3."""
    bundle = team_bundle(tmp_path, CLOSED)
    for where in (None, tmp_path):
        async with real_opa(unix=where) as opa, engine(opa.url, bundle) as started:
            assert codes(await started.decide(question("blue"))) == ["closed"]
            assert codes(await started.decide(question("red"))) == []
            assert started.revision == bundle.revision


async def test_old_and_new_policies_live_side_by_side(tmp_path: Path) -> None:
    """C034: a turn goes on under those it began under, while others are decided by the new ones."""
    other = team_bundle(tmp_path, CLOSED)
    async with real_opa() as opa, engines(opa.url) as made:
        old = await made.start(shipped())
        new = await made.start(other)
        assert [codes(await each.decide(question("blue"))) for each in (old, new)] == [[], ["closed"]]
        await old.close()

        assert codes(await new.decide(question("blue"))) == ["closed"]
        assert len(await opa.names()) == 1
        with pytest.raises(EngineFault, match="closed"):
            await old.decide(question())
        await new.close()
        assert await opa.names() == set()


async def test_proxies_that_share_a_server_take_nothing_from_each_other() -> None:
    async with real_opa() as opa, engine(opa.url) as mine:
        async with engine(opa.url) as others:
            await others.decide(question())
        await mine.decide(question())
        assert len(await opa.names()) == 1


async def test_what_a_dead_proxy_left_is_taken_away_when_its_time_is_over(tmp_path: Path) -> None:
    clock = Clock()
    async with real_opa() as opa:
        async with engines(opa.url, clock) as dead:
            await dead.start(team_bundle(tmp_path, CLOSED))
        async with engines(opa.url, clock) as made:
            await (await made.start(shipped())).close()
            assert len(await opa.names()) == 1
            clock.now += 3601
            await (await made.start(shipped())).close()
            assert await opa.names() == set()


async def test_a_rule_that_fails_is_told_with_its_place_as_it_was_written(tmp_path: Path) -> None:
    """C033; OPA by itself would take a failing function for undefined, and a denial would be lost."""
    rule = CLOSED + ' if {\n\tnot data.rules["é"]; to_number(input.calls[0].name) > 1\n}'
    async with real_opa() as opa, engine(opa.url, team_bundle(tmp_path, rule)) as started:
        for _ in range(7):
            with pytest.raises(EngineFault, match=r"rules\.rego:4:23: .*to_number") as failed:
                await started.decide(question("blue"))
            assert not isinstance(failed.value, ServerFault)
        assert codes(await started.decide(question("red"))) == []


async def test_what_opa_does_not_take_is_told_with_its_place(tmp_path: Path) -> None:
    """What only OPA finds: a type that cannot be."""
    rule = CLOSED + ' if {\n\tcount([1]) == "a"\n}'
    async with real_opa() as opa, engines(opa.url) as made:
        with pytest.raises(EngineFault, match=r"rules\.rego:4:2: match error"):
            await made.start(team_bundle(tmp_path, rule))
        assert await opa.names() == set()


async def test_names_may_call_each_other_across_files(tmp_path: Path) -> None:
    """The server takes one file at a time, and refuses a call of what is not there yet."""
    files = team_rule("deny contains said if some said in far(1)\n\nnear(x) := x + 1")
    files["callgate/team/blue/far.rego"] = (
        'package callgate.team.blue\n\nfar(x) := {{"code": "closed", "message": "No."} | near(x) == 2; table.a == 1}\n\n'
        'table[key] := 1 if some key in ["a"]'
    )
    bundle = load_bundle([written(tmp_path, files)])
    async with real_opa() as opa, engine(opa.url, bundle) as started:
        assert codes(await started.decide(question("blue"))) == ["closed"]


async def test_a_negated_call_denies_where_a_field_is_missing(tmp_path: Path) -> None:
    """OPA by itself finds such a rule undefined, and the denial would be none."""
    rule = CLOSED + " if not _is_fine(input.nothing.of.it)\n\n_is_fine(thing) if thing"
    async with real_opa() as opa, engine(opa.url, team_bundle(tmp_path, rule)) as started:
        assert codes(await started.decide(question("blue"))) == ["closed"]


# --- servers that fail --------------------------------------------------------------------------------------------


async def test_policies_that_the_server_lost_are_put_there_again() -> None:
    """A restart of OPA needs nobody: the next decision finds them gone and waits for them."""
    async with real_opa() as opa, engine(opa.url) as started:
        before = await started.decide(question())
        await opa.stop()
        with pytest.raises(ServerFault, match="cannot be reached"):
            await started.decide(question())
        await opa.start()
        assert await started.decide(question()) == before


async def test_there_is_no_decision_by_half_a_bundle() -> None:
    """Policies without their data, or data without policies, decide nothing, and are put back."""
    async with real_opa() as opa, engine(opa.url) as started:
        (name,) = await opa.names()
        before = await started.decide(question())
        for path in (f"policies/{name}", f"data/{name}", f"data/{name}/rules/profile"):
            await opa.delete(path)
            assert (await started.decide(question()) == before) is ("profile" not in path)


async def test_a_server_that_never_answers_refuses_within_the_time(tmp_path: Path) -> None:
    async with silent() as url, engines(url, timeout=0.2, write_wait=0.2, start_wait=0) as made:
        with pytest.raises(ServerFault, match="in time") as late:
            await made.start(shipped())
        assert late.value.code == "opa_timeout"
    async with silent() as url, engine(url, manage=False, timeout=0.2) as started:
        with pytest.raises(ServerFault, match="in time"):
            await started.decide(question())


async def test_a_server_that_drips_refuses_within_the_time() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with answering(drip) as url, engine(url, manage=False, timeout=0.3) as started:
        with pytest.raises(ServerFault, match="in time"):
            await started.decide(question())


async def test_a_policy_that_runs_away_on_the_server_refuses_within_the_time(tmp_path: Path) -> None:
    body = (
        CLOSED
        + " if {\n\tsome a in numbers.range(1, 5000)\n\tsome b in numbers.range(1, 5000)\n\ta + b < 0\n}"
    )
    async with real_opa() as opa, engines(opa.url, timeout=0.3) as made:
        started = await made.start(team_bundle(tmp_path, body))
        with pytest.raises(ServerFault, match="in time"):
            await started.decide(question("blue"))
        await started.close()


async def test_a_dead_server_is_spared_and_found_again_by_itself() -> None:
    """After some faults nobody waits for it any more; later one tries, and all are served again."""
    clock = Clock()
    opa = RealOpa(f"127.0.0.1:{free_port()}")
    await opa.start()
    async with engines(opa.url, clock, breaker_failures=3) as made:
        started = await made.start(shipped())
        await opa.stop()
        said = [await fault_of(started) for _ in range(5)]
        assert said == ["opa_unreachable"] * 3 + ["opa_refusing"] * 2
        assert "cannot be reached" in made.trouble
        await opa.start()
        assert await fault_of(started) == "opa_refusing"
        clock.now += 2

        both = await asyncio.gather(fault_of(started), fault_of(started))
        assert sorted(both) == ["", "opa_refusing"]
        assert made.trouble == ""
        await started.close()
    await opa.stop()


async def fault_of(started: Engine) -> str:
    """The code of the fault; empty: it decided."""
    try:
        await started.decide(question())
    except EngineFault as fault:
        return fault.code
    return ""


async def test_a_server_that_comes_later_is_waited_for() -> None:
    """In a pod, both start at a time."""
    opa = RealOpa(f"127.0.0.1:{free_port()}")
    async with engines(opa.url, start_wait=LONG) as made:
        starting = asyncio.get_running_loop().create_task(made.start(shipped()))
        await asyncio.sleep(0)
        await opa.start()
        started = await starting
        assert codes(await started.decide(question())) == []
        await started.close()
    await opa.stop()


ANSWERS: dict[str, Callable[[], web.Response]] = {
    "no JSON": web.Response,
    "nothing": lambda: web.json_response({}),
    "a list": lambda: web.json_response([]),
    "no object": lambda: web.json_response({"result": True}),
    "a redirect": lambda: web.Response(status=307, headers={"location": "http://127.0.0.1:1/"}),
    "forbidden": lambda: web.json_response({"code": "unauthorized", "message": "no"}, status=401),
    "an error in words": lambda: web.Response(status=502, text="<html>bad gateway</html>"),
    "an odd error": lambda: web.json_response({"errors": [None, {"location": []}], "message": 7}, status=500),
    "too much": lambda: web.Response(body=b'{"result":"' + b"x" * (5 << 20) + b'"}'),
    "nested": lambda: web.Response(body=b"[" * 100_000),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_what_is_no_decision_refuses(what: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return ANSWERS[what]()

    async with answering(answer) as url, engine(url, manage=False) as started:
        with pytest.raises(EngineFault):
            await started.decide(question())


async def test_a_server_asks_for_its_token(tmp_path: Path) -> None:
    policy = written(
        tmp_path,
        {
            "authz.rego": 'package system.authz\n\ndefault allow := false\n\nallow if input.identity == "right"\n'
        },
    )
    guarded = ("--authentication=token", "--authorization=basic", str(policy / "authz.rego"))
    async with real_opa(*guarded) as opa:
        async with engine(opa.url, token="right") as started:
            assert codes(await started.decide(question())) == []
        async with engines(opa.url, token="wrong") as made:
            with pytest.raises(EngineFault, match="401") as refused:
                await made.start(shipped())
            assert "wrong" not in str(refused.value)


async def test_it_asks_a_server_that_has_its_own_policies(tmp_path: Path) -> None:
    """`manage: false`: nothing is put there, and the revision is what the server reports."""
    policy = 'package callgate.main\n\ndecision := {"deny": [], "asked": input.phase}\n'
    folder = written(tmp_path, {"p.rego": policy, ".manifest": '{"revision": "r7", "roots": ["callgate"]}'})
    async with real_opa("--bundle", str(folder)) as opa, engine(opa.url, manage=False) as started:
        assert await started.decide(question()) == {"deny": [], "asked": "calls"}
        assert started.revision == f"{folder}:r7"
        assert len(await opa.names()) == 1
    async with real_opa() as opa, engine(opa.url, manage=False) as started:
        assert await fault_of(started) == "opa_undefined"
