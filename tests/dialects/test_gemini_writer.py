"""The agent's stream of a Gemini answer, as events and as one array."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.core.messages import Problem, Request, Turn, Usage
from proxy.dialects.gemini_reader import GeminiReader
from proxy.dialects.gemini_writer import GeminiWriter
from tests.dialects import gemini_agent as agent

A = agent.call("a", {"x": 1}, thoughtSignature="c2ln")
B = agent.call("b", {"n": 1})
END = agent.piece({"text": ""}, finish="STOP")
HI = agent.piece({"text": "Hi"})
Form = Callable[..., bytes]


def asked(form: Form) -> Request:
    kind = "application/json" if form is agent.array else "text/event-stream"
    return Request("gemini", "maple-1", (), stream=True, stream_type=kind)


def values(form: Form, sent: bytes) -> list[Any]:
    """What a client reads; an array has to be a whole one."""
    if form is agent.array:
        read: list[Any] = json.loads(sent)
        return read
    return [json.loads(line[6:]) for line in sent.splitlines() if line.startswith(b"data: ")]


def parts(form: Form, sent: bytes) -> list[Any]:
    given = [one["candidates"][0]["content"]["parts"] for one in values(form, sent) if "candidates" in one]
    return [part for group in given for part in group if part != {"text": ""}]


each_form = pytest.mark.parametrize("form", [agent.events, agent.array], ids=["events", "array"])


@each_form
def test_what_is_not_changed_leaves_as_it_came(form: Form) -> None:
    stream = form(HI, agent.piece(A, B), END)
    writer, reader = GeminiWriter(asked(form), "own"), GeminiReader()
    assert b"".join(map(writer.passed, reader.feed(stream) + reader.end())) == stream
    writer, reader = GeminiWriter(asked(form), "own"), GeminiReader()
    assert writer.resolved(reader.feed(stream) + reader.end(), (), "") == stream


@each_form
@pytest.mark.parametrize("apart", [False, True], ids=["one piece", "a piece each"])
def test_a_refused_call_goes_and_its_signature_stays_with_the_step(form: Form, apart: bool) -> None:
    """C10, D5."""
    calling = [agent.piece(A), agent.piece(B)] if apart else [agent.piece(A, B)]
    sent = GeminiWriter(asked(form), "own").resolved(
        GeminiReader().feed(form(HI, *calling, END)), {(0, 0)}, "No."
    )
    assert parts(form, sent) == [{"text": "Hi"}, {"text": "\n\nNo."}, {**B, "thoughtSignature": "c2ln"}]
    assert values(form, sent)[-1]["candidates"][0]["finishReason"] == "STOP"


@each_form
def test_numbers_of_a_call_that_stays_keep_their_digits(form: Form) -> None:
    """A7: the bytes judged are the bytes the tool gets."""
    digits = b"123456789012345678901234567890.10"
    stream = form(agent.piece(A, agent.call("b", {"n": "D"})), END).replace(b'"D"', digits)
    assert digits in GeminiWriter(asked(form), "own").resolved(GeminiReader().feed(stream), {(0, 0)}, "No.")


@each_form
def test_all_calls_refused_leave_an_answer_with_the_note(form: Form) -> None:
    stream = form(agent.piece(A), agent.piece({"text": ""}, finish="UNEXPECTED_TOOL_CALL"))
    sent = GeminiWriter(asked(form), "own").resolved(GeminiReader().feed(stream), {(0, 0)}, "No.")
    assert parts(form, sent) == [{"text": ""}, {"text": "No."}][1:]
    assert values(form, sent)[-1]["candidates"][0]["finishReason"] == "STOP"
    assert b"functionCall" not in sent


@each_form
def test_another_answer_continues_the_stream(form: Form) -> None:
    """C7: one opening, one end, one id, all tokens."""
    writer = GeminiWriter(asked(form), "own")
    first = GeminiReader().feed(form(HI, agent.piece(A), END))
    sent = writer.passed(first[0])
    writer.abandoned(first[1:], Turn(usage=Usage(200, 30)))
    second = form(agent.piece({"text": "Sorry."}, responseId="resp_2"), END)
    sent += b"".join(map(writer.passed, GeminiReader().feed(second)))
    assert [part["text"] for part in parts(form, sent)] == ["Hi", "\n\nSorry."]
    assert {one["responseId"] for one in values(form, sent)} == {"resp_1"}
    assert values(form, sent)[-1]["usageMetadata"]["totalTokenCount"] == 460


@each_form
@pytest.mark.parametrize("opened", [False, True])
def test_the_proxys_own_end_closes_what_is_open(form: Form, opened: bool) -> None:
    broke = Problem(502, "upstream_broke", "It broke.")

    def ended(writer: GeminiWriter) -> bytes:
        return writer.closing("Bye.")

    def failed(writer: GeminiWriter) -> bytes:
        return writer.failed(broke)

    for close in (ended, failed):
        writer = GeminiWriter(asked(form), "own")
        sent = writer.passed(GeminiReader().feed(form(HI, END))[0]) if opened else b""
        sent += close(writer)
        assert len(values(form, sent)) == 1 + opened
        assert close(writer) == b""


@each_form
def test_other_text_takes_the_place_of_what_is_visible(form: Form) -> None:
    writer = GeminiWriter(asked(form), "own")
    first, *rest = GeminiReader().feed(form(agent.piece({"text": "a"}, A, {"text": "b"}), END))
    sent = writer.rewritten(first, "c") + b"".join(map(writer.passed, rest))
    assert parts(form, sent) == [{"text": "c"}, A]


@each_form
def test_an_unreadable_piece_never_leaves(form: Form) -> None:
    """C11: an error takes its place, and nothing follows."""
    stream = form({"candidates": [agent.call("a", {})]}, HI)
    writer = GeminiWriter(asked(form), "own")
    sent = b"".join(map(writer.passed, GeminiReader().feed(stream)))
    assert b"functionCall" not in sent
    assert [list(one) for one in values(form, sent)] == [["error"]]


def test_the_form_is_the_providers_whatever_was_asked() -> None:
    stream = agent.events(agent.piece(A), END)
    sent = GeminiWriter(asked(agent.array), "own").resolved(GeminiReader().feed(stream), {(0, 0)}, "No.")
    assert parts(agent.events, sent) == [{"text": "No."}]


@each_form
def test_empty_events_keep_the_stream_alive_before_its_first_piece_too(form: Form) -> None:
    """A model's first word is often a call, which is held."""
    writer = GeminiWriter(asked(form), "own")
    frames = GeminiReader().feed(form(HI, END))
    sent = b"".join(writer.keep_alive() + writer.passed(frame) for frame in frames)
    assert values(form, sent) == [HI, END]
    assert sent.strip() != form(HI, END).strip()


@pytest.mark.parametrize("line_end", [b"\r\n", b"\n"])
def test_what_the_proxy_writes_has_the_providers_line_ends(line_end: bytes) -> None:
    """Google's client for Go looks for two LF first, then for two CRLF: between different ones it would find one event."""
    stream = agent.events(HI, agent.piece(A), END).replace(b"\r\n", line_end)
    writer = GeminiWriter(asked(agent.events), "own")
    first, *rest = GeminiReader().feed(stream)
    sent = writer.rewritten(first, "Ho") + writer.keep_alive() + writer.resolved(rest, {(0, 0)}, "No.")
    sent += writer.closing("Bye.")
    blocks = sent.split(line_end * 2)
    assert [block[:6] for block in blocks if block] == [b"data: "] * 3
    assert b"\n" not in sent.replace(line_end * 2, b"")


def test_a_call_among_thousands_is_refused() -> None:
    """Time grows with the answer, not with its square."""
    many = [agent.call("a", {"n": n}) for n in range(1000)]
    writer = GeminiWriter(asked(agent.array), "own")
    sent = writer.resolved(GeminiReader().feed(agent.array(agent.piece(*many))), {(0, 7)}, "No.")
    assert parts(agent.array, sent) == [{"text": "No."}, *many[:7], *many[8:]]
