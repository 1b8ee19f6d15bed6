"""How the model reads a result: cut, marked, fenced; always the same way."""

import re

import pytest
from hypothesis import given, strategies as st

from proxy.core.hygiene import Rendering, fenced, rendered, rendered_results
from proxy.core.messages import Message, ResultText, Role, ToolCall, ToolResult
from proxy.core.results import ToolTraits

PLAIN = ToolTraits()
SECRET = b"s" * 32


def history(text: str, channel: str = "") -> tuple[Message, ...]:
    call = ToolCall("c1", "read", "{}", channel=channel)
    return (
        Message(Role.USER, "Go."),
        Message(Role.ASSISTANT, calls=(call,)),
        Message(Role.TOOL, results=(ToolResult("c1", text),)),
    )


def test_what_is_left_out_is_said() -> None:
    """B5, C8: 8,000 characters are kept, and how many are missing stands behind them."""
    long = "x" * 20_000
    text = rendered(ToolResult("c1", long), PLAIN, Rendering(truncate=8_000))
    assert text.startswith("x" * 8_000 + "\n[callgate] Truncated: 12000 of 20000 characters")
    assert rendered(ToolResult("c1", "x" * 8_000), PLAIN, Rendering(truncate=8_000)) == "x" * 8_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"error":"DB_TIMEOUT"}', "temporarily_unavailable"),
        ('{"error":"FORBIDDEN"}', "forbidden"),
        ("Error: it broke", "failed"),
        ('{"found":false,"reason":"no such order"}', ""),
        ("", ""),
        ('{"found":true,"data":{"error_rate":0}}', ""),
    ],
)
def test_a_failure_says_that_it_is_one(text: str, says: str) -> None:
    """A11, A6: nothing that was merely not found is called a failure."""
    shown = rendered(ToolResult("c1", text), PLAIN, Rendering(mark_errors=True))
    assert shown.startswith(f"[callgate] error: {says}." if says else text)
    assert shown.endswith(text)
    flagged = ToolResult("c1", text, is_error=True)
    assert rendered(flagged, PLAIN, Rendering(mark_errors=True)) == text


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_holds_the_mark_that_closes_its_own_fence(before: str, after: str) -> None:
    """C9: whatever was copied out of another fence, this one is closed by its last line alone."""
    other = fenced(before, SECRET)
    shown = fenced(f"{other}\n{after}", SECRET)
    mark = re.match(r"\[callgate ([0-9a-f]+)\]", shown)
    assert mark is not None
    assert shown.count(f"[/callgate {mark[1]}]") == 1
    assert shown.endswith(f"[/callgate {mark[1]}]")


def test_a_fence_is_the_same_in_every_later_request_and_another_with_another_secret() -> None:
    """A7, C9."""
    assert fenced("x", SECRET) == fenced("x", SECRET)
    assert fenced("x", SECRET) != fenced("x", b"t" * 32)
    assert "\nx\n" in fenced("x", SECRET)


def test_policy_and_settings_add_up_to_the_stricter() -> None:
    how = Rendering(truncate=100, secret=SECRET)
    assert how.of_tool(ToolTraits(truncate=20, fence=True)) == Rendering(20, fence=True, secret=SECRET)
    assert how.of_tool(ToolTraits(truncate=200)) == how
    assert Rendering().of_tool(ToolTraits(truncate=7)).truncate == 7


def test_only_results_that_change_are_named() -> None:
    messages = history("a" * 50)
    assert rendered_results(messages, {}, Rendering()) == ()
    assert rendered_results(messages, {}, Rendering(truncate=50)) == ()
    (only,) = rendered_results(messages, {"read": ToolTraits(truncate=10)}, Rendering())
    assert (only.message_index, only.result_index) == (2, 0)
    assert rendered_results(messages, {"other": ToolTraits(truncate=10)}, Rendering()) == ()


def test_a_result_without_its_call_is_held_to_what_holds_for_all() -> None:
    """Where the provider keeps the history, the call is not in the request."""
    alone = (Message(Role.TOOL, results=(ToolResult("c1", "a" * 50),)),)
    (only,) = rendered_results(alone, {}, Rendering(truncate=10))
    assert isinstance(only, ResultText)


def test_results_in_text_are_left_alone() -> None:
    """C5: they are part of what the user says."""
    assert rendered_results(history("a" * 50, "react"), {}, Rendering(truncate=10)) == ()
