"""The same case gives the same verdict in every dialect, streamed or not (design, promise 3): C3, D1, D5, F1.

Each case is played through a running Callgate; the official SDK of the dialect says what the agent got.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Answer, Call
from proxy.dialects import DIALECTS
from tests.dialects.agents import AGENTS, Read
from tests.dialects.speakers import SPEAKERS, Asked, Said
from tests.playbook import Answered, Play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

A1, B2 = {"id": "A1"}, {"id": "B2"}
TOOLS = ("look_up", "cancel", "mail")
RULES = {
    "org": {
        "allowed_tools": ["look_up", "cancel"],
        "tools": {
            "look_up": {"object_arguments": ["id"]},
            "cancel": {"object_arguments": ["id"], "arguments": {"id": {"not_one_of": ["B2"]}}},
        },
    }
}
FORBIDDEN = '{"error": "FORBIDDEN"}'
SORRY = Answer("Sorry then.")
MOST_REQUESTS = 8


@dataclass(frozen=True)
class Case:
    """What the model says, one answer a request, and what is decided about each call."""

    answers: tuple[Answer, ...]
    verdicts: tuple[tuple[str, ...], ...]
    """Of each call, in order: outcome, reason class, and the codes of all verdicts about it."""
    got: tuple[str, ...] = ()
    """The tools that the agent gets to call, in order."""
    results: Mapping[str, str] = field(default_factory=dict)
    """By tool; else it is found."""
    may_call: bool = True
    is_text: bool = False
    """Where a dialect carries arguments as JSON values, they cannot be said so: then the answer may be unreadable."""
    settings: Mapping[str, Any] = field(default_factory=dict)


ALLOW = ("allow", "")
NO_SUCH_TOOL = ("block", "allow_list", "tool_unknown", "tool_not_allowed")
NOT_ALLOWED = ("block", "allow_list", "tool_not_allowed")
INVALID = ("block", "arguments_invalid", "arguments_invalid")


def calling(*calls: tuple[str, str | Mapping[str, object]]) -> Answer:
    """The model calls these tools."""
    return Answer("So.", calls=tuple(Call(name, arguments) for name, arguments in calls))


CASES = {
    "a call that is allowed": Case((calling(("look_up", A1)), Answer("Blue.")), (ALLOW,), ("look_up",)),
    "no arguments": Case((calling(("look_up", {})), Answer("Blue.")), (ALLOW,), ("look_up",)),
    "a tool that does not exist": Case((calling(("erase", A1)), SORRY), (NO_SUCH_TOOL,)),
    "a name in another case": Case((calling(("Look_Up", A1)), SORRY), (NO_SUCH_TOOL,)),
    "a tool that may not be used": Case((calling(("mail", A1)), SORRY), (NOT_ALLOWED,)),
    "an argument that may not be": Case(
        (calling(("cancel", B2)), SORRY), (("block", "argument_rule", "argument_rule"),)
    ),
    "an argument that does not fit the schema": Case(
        (calling(("look_up", {"id": 5})), SORRY), (("block", "schema", "arguments_schema"),)
    ),
    "two calls, one of them refused": Case(
        (calling(("look_up", A1), ("mail", A1)), Answer("Blue.")), (ALLOW, NOT_ALLOWED), ("look_up",)
    ),
    "two calls, the first refused": Case(
        (calling(("mail", A1), ("look_up", A1)), Answer("Blue.")), (NOT_ALLOWED, ALLOW), ("look_up",)
    ),
    "the same key twice": Case((calling(("look_up", '{"id":"A1","id":"B2"}')), SORRY), (INVALID,)),
    "arguments that are cut off": Case((calling(("look_up", '{"id":"A1"')), SORRY), (INVALID,), is_text=True),
    "text behind the arguments": Case(
        (calling(("look_up", '{"id":"A1"} and')), SORRY), (INVALID,), is_text=True
    ),
    "a number that is none": Case((calling(("look_up", '{"id":NaN}')), SORRY), (INVALID,), is_text=True),
    "a call though none was asked for": Case(
        (calling(("look_up", A1)), SORRY), (("block", "allow_list", "tool_choice_none"),), may_call=False
    ),
    "a call in the last answer": Case(
        (calling(("look_up", A1)), calling(("look_up", B2))),
        (ALLOW, ("block", "")),
        ("look_up",),
        settings={"limits__turn__rounds": 1},
    ),
    "the same call twice at once": Case(
        (calling(("look_up", A1), ("look_up", A1)), Answer("Blue.")), (ALLOW, ALLOW), ("look_up", "look_up")
    ),
    "the same call with the same result again and again": Case(
        (calling(("look_up", A1)),) * 4 + (SORRY,),
        (ALLOW, ALLOW, ALLOW, ("block", "loop", "same_call")),
        ("look_up",) * 3,
    ),
    "what is closed is closed for other tools too": Case(
        (calling(("look_up", A1)), calling(("cancel", A1)), SORRY),
        (ALLOW, ("block", "argument_rule", "object_closed")),
        ("look_up",),
        {"look_up": FORBIDDEN},
    ),
    "a refused tool insisted on": Case((calling(("mail", A1)),) * 4, (NOT_ALLOWED, NOT_ALLOWED)),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


async def test_every_dialect_has_a_speaker() -> None:
    assert {dialect.name for dialect in DIALECTS} <= SPEAKERS.keys()


def carries(dialect: str, case: Case, *, stream: bool) -> bool:
    """The dialect can say such arguments at all."""
    speaker = SPEAKERS[dialect]
    return not case.is_text or (speaker.text_streamed if stream else speaker.text_whole)


def read(dialect: str, got: Answered, *, stream: bool) -> Read:
    agent = AGENTS[dialect]
    return (agent.reads_stream if stream else agent.reads_whole)(got.body)


async def run(play: Play, dialect: str, case: Case, *, stream: bool) -> list[str]:
    """An agent's loop until it gets no call any more: the tools that it got to call."""
    play.provider.script(*case.answers)
    turns: tuple[Said, ...] = ()
    called: list[str] = []
    for _ in range(MOST_REQUESTS):
        path, body = SPEAKERS[dialect].says(Asked(TOOLS, turns, case.may_call, stream))
        got = await play.post(path, body)
        assert got.status == 200, got.body
        answer = read(dialect, got, stream=stream)
        if not answer.calls:
            return called
        called += [name for _, name, _ in answer.calls]
        results = tuple(case.results.get(name, '{"found": true}') for _, name, _ in answer.calls)
        turns = (*turns, Said(answer.calls, results))
    raise AssertionError("the agent is never done")


@pytest.mark.parametrize("stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")])
@pytest.mark.parametrize("dialect", [dialect.name for dialect in DIALECTS])
@pytest.mark.parametrize("name", CASES)
async def test_the_same_case_gives_the_same_verdict(
    name: str, dialect: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """C3: one decision core; what an agent gets does not depend on how it asks."""
    case = CASES[name]
    if not (case.may_call or SPEAKERS[dialect].can_forbid):
        return  # its agents cannot say so
    async with shelf.play(tmp_path, RULES, **case.settings) as play:
        if not carries(dialect, case, stream=stream):
            await assert_nothing_leaves(play, dialect, case, stream=stream)
            return
        called = await run(play, dialect, case, stream=stream)
        decided = [
            (one["outcome"], one["reason_class"], *dict.fromkeys(one["codes"]))
            for one in await play.decisions()
        ]
        refused = [seen.refused for seen in play.provider.seen if seen.refused]
    assert refused == []
    assert tuple(decided) == case.verdicts
    assert tuple(called) == case.got


async def assert_nothing_leaves(play: Play, dialect: str, case: Case, *, stream: bool) -> None:
    """Fail closed: an error or a refusal, and nothing of the call."""
    play.provider.script(*case.answers)
    path, body = SPEAKERS[dialect].says(Asked(TOOLS, stream=stream))
    got = await play.post(path, body)
    decided = await play.decisions()
    assert got.status == 502 or stream or decided
    assert b"A1" not in got.body
    assert {one["outcome"] for one in decided} <= {"block"}
