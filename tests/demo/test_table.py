"""Decisions as rows: each judged call once, why, and what the agent saw of it."""

import io
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from rich.console import Console, RenderableType

from proxy.demo.agents import SDKS
from proxy.demo.expectations import Mismatch
from proxy.demo.scenes import SCENES
from proxy.demo.stage import Performance, Stage, on_stage
from proxy.demo.table import Row, decision_table, mismatch_lines, rows, words_table

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with on_stage() as set_up:
        yield set_up


async def played(stage: Stage, name: str, sdk: int = 0) -> Performance:
    return await stage.play(next(scene for scene in SCENES if scene.name == name), SDKS[sdk])


def printed(*parts: RenderableType) -> str:
    out = Console(file=io.StringIO(), width=80)
    for part in parts:
        out.print(part)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


async def test_an_allowed_call_shows_what_came_of_it(stage: Stage) -> None:
    first, second = rows(await played(stage, "reads"))

    assert first == Row(1, "get_order(A123)", "allowed", agent="call: found")
    assert second.about == "search_policy(refund period, A123)"


async def test_a_refused_call_shows_check_rule_and_the_words_and_that_the_agent_got_nothing(
    stage: Stage,
) -> None:
    """D5."""
    row = rows(await played(stage, "wrong-order"))[0]

    assert row.checks == ("agent.refund_bot: order_id.in_user_text",)
    assert row.words.startswith("Look up only the order that the user named.")
    assert (row.verdict, row.told, row.agent) == ("refused", "the model", "nothing")


async def test_a_call_of_a_batch_that_was_refused_left_a_note(stage: Stage) -> None:
    """C10."""
    order, refund, _ = rows(await played(stage, "batch", 1))

    assert (order.round, order.verdict) == (1, "allowed")
    assert (refund.round, refund.verdict, refund.agent) == (1, "refused", "note")
    assert 'The tool "create_refund" is not allowed here.' in refund.words


async def test_a_nudge_and_the_last_request_have_rows_of_their_own(stage: Stage) -> None:
    """D9, B3."""
    found = rows(await played(stage, "repeat"))

    assert [(row.round, row.verdict) for row in found] == [
        (1, "allowed"),
        (2, "allowed"),
        (3, "allowed"),
        (4, "note"),
        (4, "refused"),
        (5, "no tools"),
    ]
    assert found[3].checks == ("progress.nudge",)
    assert "Another one will not change it" in found[3].words
    assert found[5].words.startswith("No further tool calls are possible")


async def test_both_sdks_get_the_same_rows(stage: Stage) -> None:
    """One decision core: the wire format makes no difference."""
    assert rows(await played(stage, "outage", 0)) == rows(await played(stage, "outage", 1))


async def test_tables_hold_every_row_and_its_words() -> None:
    found = [
        Row(1, "get_order(A1)", "allowed", agent="call: found"),
        Row(
            2,
            "pay(A1)",
            "refused",
            ("org: a", "team.x: b", "team.x: c", "tools.unknown"),
            "Not here.",
            agent="nothing",
        ),
    ]

    text = printed(decision_table(found), words_table(found))

    assert "get_order(A1)" in text
    assert "org: a" in text
    assert "2 told the model: Not here." in text
    assert "said also by: team.x: b, c; tools.unknown" in text


async def test_what_came_out_wrong_is_red_and_said_in_full() -> None:
    (line,) = mismatch_lines("openai", [Mismatch("model requests", "3", "4\n\n" + "x" * 500)])

    assert line.style == "bold red"
    assert "WRONG with openai: model requests" in line.plain
    assert "expected: 3" in line.plain
    assert "came:     4 xxx" in line.plain
    assert line.plain.endswith("x ...")
