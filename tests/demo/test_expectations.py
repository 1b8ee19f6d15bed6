"""An expectation that is broken is seen, and said with what was expected and what came."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo.agents import SDKS, Got, Played
from proxy.demo.expectations import Mismatch, mismatches, refusals
from proxy.demo.scenes import SCENES
from proxy.demo.stage import Performance, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")
REFUND = next(scene for scene in SCENES if scene.name == "refund")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def performance() -> AsyncIterator[Performance]:
    """A scene that came out right."""
    async with on_stage() as stage:
        yield await stage.play(REFUND, SDKS[0])


def expecting(performance: Performance, **changes: Any) -> list[Mismatch]:
    """What differs once the scene expects something else."""
    return mismatches(
        replace(performance, scene=replace(REFUND, expected=replace(REFUND.expected, **changes)))
    )


async def test_a_scene_that_came_out_right_has_nothing_to_complain_about(performance: Performance) -> None:
    assert mismatches(performance) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"executed": ()}, ["calls that the tools ran"]),
        ({"outcome": "denied"}, ["outcome", "outcome in the trace"]),
        ({"detail": "budget_calls"}, ["outcome"]),
        ({"requests": 9}, ["model requests"]),
        ({"refused": ()}, ["refused calls and why"]),
        ({"refused": (("create_refund", "object_closed"),)}, ["refused calls and why"]),
        ({"ends_without_tools": True}, ["the last request went out without tools"]),
        ({"says": ("moon",)}, ["the final answer"]),
        ({"never": ("desk lamp",)}, ["bytes that the agent got"]),
        ({"notes": ("moon",)}, ["what Callgate said"]),
    ],
)
async def test_each_expectation_is_looked_at(
    performance: Performance, changes: dict[str, Any], what: list[str]
) -> None:
    assert [each.what for each in expecting(performance, **changes)] == what


async def test_a_mismatch_says_what_was_expected_and_what_came(performance: Performance) -> None:
    assert expecting(performance, requests=9) == [Mismatch("model requests", "9", "4")]


async def test_a_refused_call_that_leaked_is_found(performance: Performance) -> None:
    """D5."""
    leak = Got(200, dict(performance.played.replies[0].headers), bytearray(performance.refused[0].encode()))
    played = replace(performance.played, replies=[*performance.played.replies, leak])

    (found,) = mismatches(replace(performance, played=played))

    assert found.what == "bytes that the agent got"
    assert performance.refused[0] in found.expected


async def test_a_call_that_never_arrived_an_error_and_a_lost_trace_are_found(
    performance: Performance,
) -> None:
    bare = replace(performance, played=Played([performance.text], fault="APIError: no"), spans=[])

    found = {each.what for each in mismatches(bare)}

    assert {"the SDK's error", "status of the replies", "bytes that the agent got"} <= found
    assert {"traces of the run", "spans of model requests", "spans of decisions"} <= found


async def test_what_the_provider_refused_is_found(performance: Performance) -> None:
    refused = replace(performance.seen[0], refused="Invalid parameter")

    (found,) = mismatches(replace(performance, seen=[refused, *performance.seen[1:]]))

    assert found == Mismatch("what the provider refused", "none", "['Invalid parameter']")


async def test_refusals_are_named_with_every_code(performance: Performance) -> None:
    ((tool, codes),) = refusals(performance)

    assert tool == "create_refund"
    assert "tool_not_allowed" in codes
