"""Streams of the Converse API as the agent gets them, over several answers of the provider."""

from proxy.core.messages import Problem, Request
from proxy.dialects.bedrock_frames import MessageSplitter
from proxy.dialects.bedrock_reader import ConverseReader
from proxy.dialects.bedrock_writer import ConverseWriter
from tests.dialects import bedrock_agent as agent

ASKED = Request("bedrock-converse", "m", (), stream=True)


def kinds(stream: bytes) -> list[str]:
    return [message.kind for message in MessageSplitter().feed(stream)]


def test_a_call_without_id_gets_one_that_is_written_down() -> None:
    """C003."""
    frames = ConverseReader(lambda: "made_1").feed(
        agent.opening() + agent.call(0, "", "read", "{}") + agent.ending()
    )
    sent = ConverseWriter(ASKED).resolved(frames, (), "")
    assert agent.sdk_streams(sent)["content"][0]["toolUse"]["toolUseId"] == "made_1"


def test_with_no_call_left_the_end_is_an_ordinary_one() -> None:
    """D5."""
    frames = ConverseReader(str).feed(agent.opening() + agent.call(0, "a", "read", "{}") + agent.ending())
    sent = ConverseWriter(ASKED).resolved(frames, {(0, 0)}, "No.")
    assert b'"end_turn"' in sent
    assert agent.sdk_streams(sent)["content"] == [{"text": "No."}]


def test_what_is_open_is_stopped_before_another_answer_goes_on() -> None:
    """E12: one opening, one end, every block stopped."""
    out, reader = ConverseWriter(ASKED), ConverseReader(str)
    begun = (
        agent.opening() + agent.text(0, "One")[: -len(agent.said("contentBlockStop", contentBlockIndex=0))]
    )
    sent = b"".join(map(out.passed, reader.feed(begun)))
    sent += out.abandoned((), reader.turn())
    sent += b"".join(
        map(
            out.passed,
            ConverseReader(str).feed(agent.opening() + agent.text(0, "Two") + agent.ending("end_turn")),
        )
    )
    assert kinds(sent).count("messageStart") == kinds(sent).count("messageStop") == 1
    assert kinds(sent).count("contentBlockStop") == 2
    assert agent.sdk_streams(sent)["content"] == [{"text": "One"}, {"text": "\n\nTwo"}]


def test_a_sign_of_life_is_no_text_added_to_a_text() -> None:
    """C031: only where there is one."""
    out = ConverseWriter(ASKED)
    assert out.keep_alive() == b""
    sent = b"".join(map(out.passed, ConverseReader(str).feed(agent.opening() + agent.text(0, "One"))))
    assert kinds(out.keep_alive()) == ["contentBlockDelta"]
    assert agent.sdk_streams(sent + out.keep_alive())["content"] == [{"text": "One"}]


def test_after_the_end_nothing_is_added() -> None:
    out = ConverseWriter(ASKED)
    out.passed(ConverseReader(str).feed(agent.opening())[0])
    assert kinds(out.closing("So.")) == ["contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]
    assert out.closing("So.") == b""


def test_an_error_is_an_exception_of_a_type_that_is_known_there() -> None:
    """C4."""
    failed = ConverseWriter(ASKED).failed
    said = [failed(Problem(status, "x", "No.")) for status in (403, 429, 500, 503)]
    assert [kinds(one)[0] for one in said] == [
        "validationException",
        "throttlingException",
        "internalServerException",
        "serviceUnavailableException",
    ]
