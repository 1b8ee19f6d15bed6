"""A whole answer in JSON that stands for a call (C5)."""

import json

from hypothesis import given, strategies as st
from langchain_classic.agents.output_parsers import JSONAgentOutputParser
from langchain_classic.agents.structured_chat.output_parser import StructuredChatOutputParser
from langchain_core.agents import AgentAction
from langchain_core.exceptions import OutputParserException

from proxy.channels import ChannelOptions
from proxy.channels.scanner import Scanner
from proxy.channels.structured import Structured
from tests.channels.forms import calls_in, scanned


def found(text: str, name_field: str = "", arguments_field: str = "") -> list[tuple[str, str]]:
    scanner = Scanner(
        Structured(ChannelOptions(name_field=name_field, arguments_field=arguments_field)).rules
    )
    scanner.feed(text)
    scanner.end()
    return calls_in(scanner)


def test_fields_can_be_named() -> None:
    text = '{"thought": "x", "step": "read", "with": {"id": 4}}'
    assert found(text) == []
    assert found(text, name_field="step", arguments_field="with") == [("read", '{"id": 4}')]


def test_an_answer_that_is_no_call_is_an_answer() -> None:
    """E14: a final answer may come in the same form."""
    assert calls_in(scanned("structured", '{"action": "Final Answer", "action_input": "7"}')) == []
    assert calls_in(scanned("structured", '{"total": 7}')) == []
    assert calls_in(scanned("structured", '{"report": {"tool": "read", "args": {}}}')) == []


def test_a_call_that_is_cut_off_is_refused() -> None:
    """Fail closed: some parsers close what is left open."""
    assert [name for name, _ in calls_in(scanned("structured", '{"action": "read", "action_input": '))] == [
        "unreadable_call"
    ]


def test_a_finish_that_is_configured_as_a_tool_is_one() -> None:
    scanner = Scanner(Structured(ChannelOptions(tools=("respond",))).rules)
    scanner.feed('{"action": "respond", "action_input": "7"}')
    scanner.end()
    assert calls_in(scanner) == [("respond", '{"input": "7"}')]


def test_text_for_a_tool_is_its_one_input() -> None:
    assert calls_in(scanned("structured", '{"action": "read", "action_input": "4"}')) == [
        ("read", '{"input": "4"}')
    ]


CALL = {"action": "delete", "action_input": "x"}
PIECES = [
    "```",
    "json",
    "\n",
    " ",
    "{",
    "}",
    ",",
    ":",
    '"action"',
    '"delete"',
    '"action_input"',
    '"x"',
    "[",
    "]",
    "`",
]
PIECES += [json.dumps(CALL), json.dumps(CALL)[:-1], '{"action":"delete"}', "Well."]
PARSERS = (JSONAgentOutputParser(), StructuredChatOutputParser())


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(PARSERS))
def test_what_lenient_parsers_would_run_is_found(
    pieces: list[str], parser: JSONAgentOutputParser | StructuredChatOutputParser
) -> None:
    """C5, promise 4: they close what is open, and take what they like out of a text."""
    text = "".join(pieces)
    try:
        would = parser.parse(text)
    except (OutputParserException, TypeError):
        return
    if isinstance(would, AgentAction) and would.tool == "delete":
        assert {name for name, _ in calls_in(scanned("structured", text))} & {"delete", "unreadable_call"}


def test_an_answer_by_program_ends_the_loop_where_it_is_said_how() -> None:
    """E14: a parser takes it for the final answer; without a name for that, it is text."""
    answer = JSONAgentOutputParser().parse(
        Structured(ChannelOptions(final="Final Answer")).answer("Stopped.")
    )
    assert answer.return_values == {"output": "Stopped."}  # type: ignore[union-attr]  # what this parser gives here is a finish
    assert Structured(ChannelOptions()).answer("Stopped.") == "Stopped."
    assert '"step": "done"' in Structured(ChannelOptions(name_field="step", final="done")).answer("x")


def test_results_in_langchains_form_are_results() -> None:
    text = "TOOL RESPONSE:\n---------------------\n7 pieces\n\nUSER'S INPUT\n--------------------\n\nOkay, so what"
    channel = Structured(ChannelOptions())
    assert channel.results(text) == ["7 pieces"]
    assert channel.results("Observation: 7") == ["7"]
    assert channel.results("The TOOL RESPONSE:") == []
