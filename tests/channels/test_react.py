"""ReAct, as agents write it and as parsers read it (C5, C6, E14)."""

import re

import pytest
from hypothesis import given, strategies as st
from langchain_classic.agents.output_parsers import ReActSingleInputOutputParser
from langchain_core.agents import AgentAction
from langchain_core.exceptions import OutputParserException

from proxy.channels import ChannelOptions
from proxy.channels.react import ReAct
from tests.channels.forms import calls_in, scanned

CHANNEL = ReAct(ChannelOptions())
PIECES = [
    "Action",
    " 1",
    ":",
    " ",
    "\n",
    "Input",
    "delete",
    "x",
    "Thought:",
    "Final Answer:",
    "**",
    '"',
    "Observation:",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_what_langchain_would_run_is_found(pieces: list[str]) -> None:
    """C6: at least as generous as the parser of the best-known framework; what it would run is never plain text."""
    text = "".join(pieces)
    found = scanned("react", text)
    shown = text if found.cut is None else text[: found.cut]
    try:
        would = ReActSingleInputOutputParser().parse(shown)
    except OutputParserException:
        return
    if isinstance(would, AgentAction) and re.fullmatch(r"[\w.-]+", would.tool):
        names = [name for name, _ in calls_in(found)]
        assert names, text
        assert would.tool in names or "unreadable_call" in names or would.tool.lower() == "none"


def test_the_observation_goes_back_as_one() -> None:
    assert CHANNEL.refusal([("a", "no"), ("b", "never")]) == "Observation: no\nObservation: never"
    assert CHANNEL.results("Observation: 7") == ["7"]
    assert CHANNEL.results("A question: 7") == []


def test_an_answer_by_program_ends_the_loop() -> None:
    """E14: a parser takes it for the final answer."""
    answer = ReActSingleInputOutputParser().parse(CHANNEL.answer("Stopped."))
    assert answer.return_values == {"output": "Stopped."}  # type: ignore[union-attr]  # what this parser gives here is a finish


def test_a_scratchpad_is_read_as_the_conversation_that_it_is() -> None:
    """E14: what describes the form is no step of it."""
    prompt = "Action: the action to take\nAction Input: its input\nObservation: its result\n\nQuestion: q\nThought:"
    first = " look\nAction: read\nAction Input: 1\nObservation: none\nThought:"
    before, parts = CHANNEL.past(
        f"{prompt}{first} again\nAction: read\nAction Input: 2\nObservation: 7\nThought:"
    )
    assert before == prompt
    assert [(part.calls, part.result) for part in parts] == [
        ((("read", '{"input": "1"}'),), "none"),
        ((("read", '{"input": "2"}'),), "7"),
    ]
    assert CHANNEL.past(prompt) == (prompt, [])


@pytest.mark.parametrize(
    "finish", ["Action: Finish[7]", "Action: finish\nAction Input: 7", "Final Answer: 7"]
)
def test_a_finish_is_no_call(finish: str) -> None:
    assert calls_in(scanned("react", finish)) == []


def test_calls_are_written_as_they_are_read() -> None:
    calls = [("read", '{"id": 4}')]
    assert calls_in(scanned("react", CHANNEL.written(calls))) == calls
