"""Messages on spans: JSON text that viewers read, redacted, capped, still JSON (F4)."""

import json

from hypothesis import given, strategies as st

from proxy import trace_content
from proxy.core.messages import Message, Role, ToolResult
from proxy.redaction import Redactor

from . import sample_run as sample

redactor = Redactor()


def test_messages_are_written_as_the_conventions_have_them() -> None:
    messages = (
        Message(Role.SYSTEM, "be kind"),
        Message(Role.USER, "where is A123?"),
        Message(Role.ASSISTANT, "", calls=(sample.call(),)),
        Message(Role.USER, "", results=(ToolResult("call_1", '{"found": true}'),)),
    )

    assert json.loads(trace_content.input_messages(messages, redactor)) == [
        {"role": "system", "parts": [{"type": "text", "content": "be kind"}]},
        {"role": "user", "parts": [{"type": "text", "content": "where is A123?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "call_1", "name": "get_order", "arguments": '{"order_id":"A123"}'}
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "call_1", "response": '{"found":true}'}],
        },
    ]


def test_an_answer_is_one_message_with_text_and_calls() -> None:
    turn = sample.turn(text="one moment", calls=(sample.call(),))

    (message,) = json.loads(trace_content.output_messages(turn, redactor))
    assert message["role"] == "assistant"
    assert [part["type"] for part in message["parts"]] == ["text", "tool_call"]


def test_secrets_do_not_get_into_captured_content() -> None:
    text = '{"password":"CANARY"}'
    message = Message(Role.USER, text, calls=(sample.call(arguments=text),), results=(ToolResult("c", text),))

    assert "CANARY" not in trace_content.input_messages([message], redactor)
    assert "CANARY" not in trace_content.output_messages(sample.turn(text=text), redactor)
    assert "CANARY" not in trace_content.arguments(text, redactor)


def test_of_a_long_history_the_newest_messages_stay_and_the_gap_is_said() -> None:
    messages = [Message(Role.USER, f"{number} " + "x" * 5000) for number in range(50)]

    text = trace_content.input_messages(messages, redactor)
    first, *rest = json.loads(text)

    assert len(text) <= trace_content.LARGEST
    assert first["parts"][0]["content"] == f"[{50 - len(rest)} earlier messages left out]"
    assert rest[-1]["parts"][0]["content"].startswith("49 ")


@given(
    st.lists(st.builds(Message, st.sampled_from(Role), st.text(st.characters(categories=None))), max_size=5)
)
def test_any_messages_become_json_that_can_be_encoded(messages: list[Message]) -> None:
    text = trace_content.input_messages(messages, redactor)

    text.encode("utf-8")
    assert len(json.loads(text)) == len(messages)


def test_hostile_lengths_are_capped() -> None:
    turn = sample.turn(
        text="x" * 1_000_000, calls=tuple(sample.call(arguments='"' * 9000) for _ in range(50))
    )

    assert len(trace_content.output_messages(turn, redactor)) <= trace_content.LARGEST
    assert len(trace_content.arguments("x" * 1_000_000, redactor)) <= trace_content.LARGEST
