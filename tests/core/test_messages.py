"""The neutral words: frozen values that keep what a provider sent exactly as it came."""

import dataclasses

import pytest

from proxy.core.messages import Message, RequestEdit, Role, Tool, ToolCall, ToolResult, Usage
from tests.checks.build import assistant, call, request, result, user


def test_a_user_who_speaks_opens_a_turn_and_results_do_not() -> None:
    assert user("go on").is_user_turn
    assert Message(Role.USER).is_user_turn
    assert not result("a").is_user_turn
    assert not assistant(call()).is_user_turn
    assert not Message(Role.SYSTEM, "rules").is_user_turn


def test_a_reminder_beside_results_opens_no_turn() -> None:
    """Else an agent that adds one to every result would start all counts anew."""
    assert not Message(Role.USER, "remember the plan", results=(ToolResult("a", "A"),)).is_user_turn


def test_a_tool_is_found_by_its_exact_name_only() -> None:
    """C025."""
    asked = request(tools=(Tool("search_docs"), Tool("other")))

    assert asked.tool("search_docs") is asked.tools[0]
    assert asked.tool("Search_docs") is None
    assert asked.tool("search_docs ") is None
    assert asked.tool_names == ("search_docs", "other")


def test_an_edit_that_changes_nothing_is_false() -> None:
    """A7: a request that nobody edits goes upstream as the bytes that came."""
    assert not RequestEdit()
    assert RequestEdit(note="stop")
    assert RequestEdit(keep_tools=frozenset())
    assert RequestEdit(max_output=0)


def test_the_tokens_of_two_answers_are_added_class_by_class() -> None:
    """E12: a round that only repairs is paid like any other."""
    both = Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50)

    assert both == Usage(11, 22, 33, 44, 55)
    assert both + Usage() == both


def test_what_was_said_cannot_be_written_over() -> None:
    """C12."""
    for value in (call(), user(), request()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, "other")


def test_a_call_keeps_its_text_to_the_byte() -> None:
    text = ' {"n": 1.0,"s":"\\u0041"}\n'

    assert ToolCall("c", "t", text).arguments == text
