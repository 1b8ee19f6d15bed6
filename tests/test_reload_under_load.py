"""New policies while many streams are open: nothing is lost, nothing is mixed (C034, F2, F3)."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from pathlib import Path
from typing import Any

from proxy.demo import Answer, Call, Seen
from proxy.engines import open_policies
from proxy.policy_settings import Policy
from tests.asked import written
from tests.playbook import CHAT, Answered, Play, play
from tests.processes import children

STREAMS = 50
GROUPS = 5
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]


def rule(code: str) -> dict[str, str]:
    said = f'deny contains {{"code": "{code}", "message": "Not in {code}."}} if input.phase == "calls"'
    return {"callgate/org/mine.rego": f"package callgate.org\n\n{said}\n"}


async def test_fifty_open_streams_end_under_the_policies_that_they_began_under(tmp_path: Path) -> None:
    """C034: each is decided by one version from its request to its call, whatever comes into force meanwhile."""
    folder = written(tmp_path / "mine", rule("version_0"))
    before = len(children())
    policies = await open_policies(Policy(folders=(folder,), deadline_seconds=30))
    try:
        async with play(tmp_path, policies=policies, reask__per_turn=0) as stage:
            groups = await _streams(stage, folder)
            said = [[await _said(stage, run) for run in group] for group in groups]
            revisions = [{revision for each in group for revision in each[1]} for group in said]
            await asyncio.sleep(0)
    finally:
        await policies.close()

    for place, group in enumerate(said):
        assert [each[0] for each in group] == [[f"version_{place}"]] * (STREAMS // GROUPS)
    # One revision for each group, and no two the same.
    assert [len(found) for found in revisions] == [1] * GROUPS
    assert len(set.union(*revisions)) == GROUPS
    # The engines of old versions have gone.
    assert len(children()) == before


async def _streams(stage: Play, folder: Path) -> list[list[str]]:
    """The runs of streams that are opened in groups, with a reload between two groups, and go on together."""
    going = asyncio.Event()

    async def answer(_: Seen) -> Answer:
        await going.wait()
        return Answer("Let me look.", calls=(Call("look_up", {"id": "A1"}),), pieces=1)

    stage.provider.respond(answer)
    async with asyncio.TaskGroup() as tasks:
        asked: list[list[asyncio.Task[Answered]]] = []
        for place in range(GROUPS):
            if place:
                written(folder, rule(f"version_{place}"))
                await stage.callgate.policies.reload()
            names = [f"stream-{place}-{number}" for number in range(STREAMS // GROUPS)]
            asked.append([tasks.create_task(_ask(stage, name)) for name in names])
            await stage.provider.until(partial(_have_come, stage, sum(map(len, asked))), within=60)
        going.set()
    answers = [[task.result() for task in group] for group in asked]
    for got in itertools.chain.from_iterable(answers):
        assert got.status == 200
        assert got.body.endswith(b"data: [DONE]\n\n")
        assert b"Let me look." in got.body
    return [[got.headers["x-callgate-run"] for got in group] for group in answers]


def _have_come(stage: Play, count: int) -> bool:
    return len(stage.provider.seen) == count


async def _ask(stage: Play, name: str) -> Answered:
    body: dict[str, Any] = {
        "model": "m",
        "stream": True,
        "tools": TOOLS,
        "messages": [{"role": "user", "content": name}],
    }
    return await stage.post(CHAT, body, {"x-callgate-run": name})


async def _said(stage: Play, run: str) -> tuple[list[str], set[str]]:
    """The codes that refused this stream's calls, and the revisions that its decisions were made under."""
    records = [each for each in await stage.records("decision") if each["kind"] == "decision"]
    mine = [each for each in records if each["run"] == run]
    codes = [verdict["code"] for each in mine for verdict in each["verdicts"]]
    return codes, {each["policy"] for each in mine}
