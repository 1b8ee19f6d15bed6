"""`callgate demo` as people see it: in a terminal, in a pipe, right and wrong."""

import io
import re
from dataclasses import replace

from rich.console import Console

from proxy.demo.scenes import SCENES
from proxy.demo.show import play_scenes

BY_NAME = {scene.name: scene for scene in SCENES}
ESCAPE = "\x1b["


def screen(width: int = 100, *, terminal: bool = False) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=width, force_terminal=terminal, highlight=False, soft_wrap=True), text


async def test_a_story_that_came_out_right_ends_with_nought() -> None:
    """D14: what the customer asked, each decision, the answer, the trace, and a summary."""
    out, text = screen()

    code = await play_scenes(out, pace=0.0, scenes=[BY_NAME["refund"], BY_NAME["repeat"]])

    shown = text.getvalue()
    assert code == 0
    assert "The customer: Please refund my order A123." in shown
    assert re.search(r"3\s+create_refund\(A123, 49\.00 EUR\)\s+refused\s+tools\.not_allowed\s+nothing", shown)
    assert "openai and anthropic: the same decisions, the same answer." in shown
    assert "guard tool_call create_refund" in shown
    assert re.search(r"repeat\s+no_progress\s+5\s+3\s+1\s+right\s+right", shown)
    assert "All 4 runs came out right" in shown
    assert "WRONG" not in shown
    assert ESCAPE not in shown
    assert max(map(len, shown.splitlines())) <= 100


async def test_a_broken_expectation_is_red_and_ends_with_one() -> None:
    scene = BY_NAME["reads"]
    broken = replace(scene, expected=replace(scene.expected, requests=7))
    out, text = screen(terminal=True)

    code = await play_scenes(out, pace=0.0, scenes=[broken])

    shown = text.getvalue()
    assert code == 1
    assert "\x1b[1;31mWRONG with openai: model requests" in shown
    assert "expected: 7" in shown
    assert "came:     3" in shown
    assert "2 of 2 runs came out WRONG." in shown


async def test_scenes_are_chosen_by_a_part_of_their_name_and_traces_can_be_left_out() -> None:
    out, text = screen(80)

    code = await play_scenes(out, "forbid", with_trace=False, pace=0.0)

    shown = text.getvalue()
    assert code == 0
    assert "1/1  A forbidden order" in shown
    assert "The trace" not in shown
    assert "All 2 runs" in shown
    assert max(map(len, shown.splitlines())) <= 80


async def test_a_scene_that_there_is_not_ends_with_two_and_names_those_that_there_are() -> None:
    out, text = screen()

    assert await play_scenes(out, "moon") == 2
    assert "wrong-order" in text.getvalue()


async def test_it_can_be_told_where_only_ascii_is_spoken() -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", write_through=True) as file:
        code = await play_scenes(Console(file=file, width=80), "outage", pace=0.0)
        shown = raw.getvalue().decode("ascii")

    assert code == 0
    assert "progress.retries" in shown


async def test_sdks_that_come_to_different_answers_are_told_one_by_one() -> None:
    """Told once only where all came to the same."""
    scene = BY_NAME["reads"]
    said: list[str] = []

    def fickle(talk):  # type: ignore[no-untyped-def]  # a model that counts how often it was asked
        said.append(talk.user)
        answer = scene.model(talk)
        return replace(answer, text=f"{answer.text} ({len(said)})") if answer.text else answer

    out, text = screen()

    code = await play_scenes(out, pace=0.0, scenes=[replace(scene, model=fickle)])

    assert code == 0
    assert "With the SDK of openai:" in text.getvalue()
    assert "With the SDK of anthropic:" in text.getvalue()
