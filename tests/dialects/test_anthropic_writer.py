"""What the agent gets of a stream of the Messages API: read by a strict reader and by the official SDK."""

from collections.abc import Collection
from typing import Any

import anthropic
import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import CallReady, Frame, Problem
from proxy.core.stream_gate import StreamGate
from proxy.dialects.anthropic_writer import AnthropicWriter
from tests.dialects.messages_agent import (
    PING,
    call,
    ending,
    events_of,
    frames_of,
    opening,
    read_strictly,
    reader,
    recorded_streams,
    sdk_streams,
    sse,
    text,
    thinking,
    writer,
)

Json = dict[str, Any]
NOTE = "[callgate] not run"
BROKEN_OFF = Problem(502, "upstream_error", "The stream broke off.", {"budget": "rounds"})


def through(out: AnthropicWriter, stream: bytes, refused: Collection[str] = (), note: str = "") -> bytes:
    """The stream through the gate, with the calls of these ids refused."""
    gate = StreamGate(10**6)
    sent = b""
    for frame in frames_of(stream):
        passed = gate.feed(frame)
        if passed is not None:
            sent += out.passed(passed)
        elif gate.ready:
            keys = {one.key for one in gate.calls if one.id in refused} | set(gate.broken)
            sent += out.resolved(gate.take(), keys, note)
    return sent


def content_of(stream: bytes) -> list[tuple[str, Any]]:
    """The blocks that the official SDK reads, in short."""
    read = sdk_streams(stream)
    short = {"text": "text", "tool_use": "name", "thinking": "thinking", "server_tool_use": "name"}
    return [(block.type, getattr(block, short[block.type])) for block in read.content]


ONLY = (
    opening()
    + PING
    + text(0, "Let me ", "do that.")
    + call(1, "toolu_x", "drop_note", "", '{"id":', '"9"}')
    + text(2, "Done soon.")
    + ending("tool_use")
)
PAIR = (
    opening()
    + thinking(0, "hm")
    + text(1, "Both now.")
    + call(2, "toolu_r", "read", '{"id":"R1"}')
    + PING
    + call(3, "toolu_p", "purge", '{"id":"R2"}')
    + call(4, "toolu_s", "read", "")
    + ending("tool_use")
)


def test_what_nobody_edits_leaves_byte_for_byte() -> None:
    for stream in (ONLY, PAIR, ONLY.replace(b"\n", b"\r\n")):
        assert through(writer(), stream) == stream


def test_every_recorded_stream_leaves_byte_for_byte() -> None:
    """F1: drop-in, on real traffic."""
    for entry in recorded_streams():
        body = entry["response"]["body"].encode()
        assert through(writer(), body) == body, entry["id"]


def test_every_recorded_stream_with_all_calls_refused_stays_a_proper_stream() -> None:
    for entry in recorded_streams():
        calls = [one["id"] for one in entry["observed"]["tool_calls"]]
        if not calls or "message-start-repeated" in entry["tags"]:
            continue
        sent = through(writer(), entry["response"]["body"].encode(), calls, NOTE)
        read_strictly(sent)
        assert not any(call_id.encode() in sent for call_id in calls), entry["id"]
        message = sdk_streams(sent)
        assert message.stop_reason == "end_turn", entry["id"]
        assert NOTE in "".join(block.text for block in message.content if block.type == "text")


def test_a_stream_whose_only_call_is_refused_still_ends_properly() -> None:
    """C023: later blocks move up, the finish word is the ordinary one."""
    sent = through(writer(), ONLY, ["toolu_x"], NOTE)
    events = read_strictly(sent)
    assert content_of(sent) == [("text", "Let me do that."), ("text", "Done soon."), ("text", "\n\n" + NOTE)]
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert b"toolu_x" not in sent
    assert sent.startswith(ONLY[: ONLY.index(b"event: content_block_start", ONLY.index(b"do that."))])


def test_of_two_calls_the_allowed_one_leaves_in_order_and_the_note_stands_before_it() -> None:
    """C005, C10: no orphan, and the model learns why."""
    sent = through(writer(), PAIR, ["toolu_p"], NOTE)
    assert content_of(sent) == [
        ("thinking", "hm"),
        ("text", "Both now."),
        ("text", "\n\n" + NOTE),
        ("tool_use", "read"),
        ("tool_use", "read"),
    ]
    assert sdk_streams(sent).stop_reason == "tool_use"
    assert read_strictly(sent)
    assert b"toolu_p" not in sent
    assert b"R2" not in sent


def test_frames_in_front_of_the_first_edit_keep_their_bytes() -> None:
    sent = through(writer(), PAIR, ["toolu_p"])
    assert sent.startswith(PAIR[: PAIR.index(b"event: ping")])
    assert PAIR[PAIR.index(b"event: message_delta") :] in sent


def test_all_calls_refused_leave_thinking_and_text() -> None:
    sent = through(writer(), PAIR, ["toolu_r", "toolu_p", "toolu_s"])
    read_strictly(sent)
    message = sdk_streams(sent)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.stop_reason == "end_turn"


def test_another_finish_word_than_that_of_calls_stays() -> None:
    """C11: only what would promise a call is corrected."""
    stream = opening() + call(0, "t", "read", "{}") + ending("max_tokens")
    assert sdk_streams(through(writer(), stream, ["t"])).stop_reason == "max_tokens"


def test_a_refused_call_is_cut_out_of_the_opening() -> None:
    blocks: list[Json] = [
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "t1", "name": "roll", "input": {"n": 1.0}},
        {"type": "tool_use", "id": "t2", "name": "roll", "input": {}},
    ]
    stream = opening(blocks, "tool_use") + sse({"type": "message_stop"})
    assert through(writer(), stream) == stream
    one = through(writer(), stream, ["t2"], NOTE)
    assert b'"input": {"n": 1.0}' in one
    assert content_of(one) == [("text", "So."), ("text", NOTE), ("tool_use", "roll")]
    assert sdk_streams(one).stop_reason == "tool_use"
    none = through(writer(), stream, ["t1", "t2"], NOTE)
    read_strictly(none)
    assert content_of(none) == [("text", "So."), ("text", NOTE)]
    assert sdk_streams(none).stop_reason == "end_turn"


def test_blocks_after_an_edited_opening_go_on_without_a_gap() -> None:
    blocks: list[Json] = [{"type": "tool_use", "id": "t1", "name": "roll", "input": {}}]
    stream = opening(blocks) + text(1, "More.") + ending("tool_use")
    sent = through(writer(), stream, ["t1"], NOTE)
    read_strictly(sent)
    assert content_of(sent) == [("text", "More."), ("text", "\n\n" + NOTE)]


def test_a_made_id_is_written_into_the_released_call() -> None:
    stream = opening() + call(0, "", "read", '{"a":1}') + ending("tool_use")
    assert sdk_streams(through(writer(), stream)).content[0].to_dict()["id"] == "toolu_made_1"
    whole = opening([{"type": "tool_use", "name": "read", "input": {}}], "tool_use") + sse(
        {"type": "message_stop"}
    )
    assert sdk_streams(through(writer(), whole)).content[0].to_dict()["id"] == "toolu_made_1"


def test_white_space_for_arguments_leaves_as_no_arguments() -> None:
    """C004: what the client assembles must parse."""
    stream = opening() + call(0, "t", "read", "", " ", "\n") + ending("tool_use")
    assert sdk_streams(through(writer(), stream)).content[0].to_dict()["input"] == {}


def test_a_piece_of_arguments_that_came_late_never_leaves() -> None:
    late = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "EVIL"},
    }
    stream = opening() + call(0, "t", "read", '{"a":1}') + sse(late) + ending("tool_use")
    sent = through(writer(), stream)
    assert b"EVIL" not in sent
    assert read_strictly(sent)


def test_blocks_that_are_numbered_oddly_are_numbered_anew() -> None:
    sent = through(writer(), opening() + text(4, "a") + call(9, "t", "read", "{}") + ending("tool_use"))
    read_strictly(sent)
    assert content_of(sent) == [("text", "a"), ("tool_use", "read")]


# --- more than one answer ---------------------------------------------------------------------------------------


def abandoned(out: AnthropicWriter, stream: bytes) -> bytes:
    """What leaves of an answer whose calls are all refused inside the proxy."""
    read, gate = reader(), StreamGate(10**6)
    sent = b""
    for frame in read.feed(stream):
        passed = gate.feed(frame)
        if passed is not None:
            sent += out.passed(passed)
        elif gate.ready:
            return sent + out.abandoned(gate.take(), read.turn())
    raise AssertionError("no call was held")


def test_another_answer_goes_on_in_the_same_stream() -> None:
    """One opening, indices without a gap, usage of both, texts set apart."""
    out = writer()
    sent = abandoned(out, ONLY)
    second = thinking(0, "again") + text(1, "", "It is ", "fine.") + call(2, "toolu_2", "read", "{}")
    sent += through(out, opening(answer="msg_2") + second + ending("tool_use", 30))
    events = read_strictly(sent)
    assert [event["message"]["id"] for event in events if event["type"] == "message_start"] == ["msg_1"]
    assert content_of(sent) == [
        ("text", "Let me do that."),
        ("thinking", "again"),
        ("text", "\n\nIt is fine."),
        ("tool_use", "read"),
    ]
    usage = sdk_streams(sent).usage
    assert (usage.input_tokens, usage.output_tokens) == (200, 50)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (14, 6)
    assert b"toolu_x" not in sent


def test_without_text_before_nothing_is_set_apart() -> None:
    out = writer()
    sent = abandoned(out, opening() + call(0, "t", "drop", "{}") + ending("tool_use"))
    sent += through(out, opening() + text(0, "Fine.") + ending())
    assert content_of(sent) == [("text", "Fine.")]


def test_refusals_go_on_in_a_further_answer() -> None:
    out = writer()
    sent = abandoned(out, ONLY) + through(out, PAIR, ["toolu_p", "toolu_r", "toolu_s"], NOTE)
    read_strictly(sent)
    assert sdk_streams(sent).stop_reason == "end_turn"
    third = writer()
    sent = (
        abandoned(third, ONLY)
        + abandoned(third, PAIR)
        + through(third, opening() + text(0, "End.") + ending())
    )
    read_strictly(sent)
    assert sdk_streams(sent).usage.output_tokens == 60
    assert content_of(sent)[-1] == ("text", "\n\nEnd.")


def test_a_further_answer_that_is_all_opening_becomes_events() -> None:
    block = {"type": "tool_use", "id": "", "name": "roll", "input": {"n": 1.0}}
    whole = opening([{"type": "text", "text": "Go."}, block], "tool_use", "msg_2") + sse(
        {"type": "message_stop"}
    )
    out = writer()
    sent = abandoned(out, ONLY) + through(out, whole, (), NOTE)
    read_strictly(sent)
    assert content_of(sent)[1:] == [("text", "\n\nGo."), ("text", "\n\n" + NOTE), ("tool_use", "roll")]
    assert b'{\\"n\\": 1.0}' in sent
    message = sdk_streams(sent)
    assert message.content[-1].to_dict()["id"] == "toolu_made_1"
    assert message.stop_reason == "tool_use"
    refused = writer()
    sent = abandoned(refused, ONLY) + through(refused, whole, ["toolu_made_1"], NOTE)
    read_strictly(sent)
    assert sdk_streams(sent).stop_reason == "end_turn"


def test_a_held_opening_is_not_sent_and_the_next_one_is() -> None:
    whole = opening([{"type": "tool_use", "id": "t", "name": "roll", "input": {}}], "tool_use")
    out = writer()
    sent = abandoned(out, whole) + through(out, opening(answer="msg_2") + text(0, "Hi.") + ending())
    read_strictly(sent)
    message = sdk_streams(sent)
    assert (message.id, message.usage.output_tokens) == ("msg_2", 21)


def test_an_open_block_is_stopped_when_an_answer_is_abandoned() -> None:
    """Calls may interleave with a text that is not over."""
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "So"}}
    stream = opening() + sse(start) + sse(delta) + call(1, "t", "drop", "{}") + ending("tool_use")
    out = writer()
    sent = abandoned(out, stream) + through(out, opening() + text(0, "Fine.") + ending())
    read_strictly(sent)
    assert content_of(sent) == [("text", "So"), ("text", "\n\nFine.")]


# --- said by program --------------------------------------------------------------------------------------------


def test_an_answer_by_program_opens_and_ends_by_itself() -> None:
    """E7: a status with no model behind it; it reads as an ordinary end."""
    sent = writer().closing("Stopped.")
    read_strictly(sent)
    message = sdk_streams(sent)
    assert (message.id, message.model, message.stop_reason) == ("msg_own", "model-x", "end_turn")
    assert content_of(sent) == [("text", "Stopped.")]


@pytest.mark.parametrize("stream", [ONLY, PAIR])
def test_an_answer_can_be_closed_after_any_frame(stream: bytes) -> None:
    """B3: whatever was sent, what the agent reads ends properly."""
    frames = frames_of(stream)
    for count in range(len(frames) + 1):
        out = writer()
        sent = b"".join(out.passed(frame) for frame in frames[:count])
        sent += out.closing("Stopped.") + out.passed(frames[-1])
        read_strictly(sent)
        finished = any(
            event["type"] == "message_delta" for event in events_of(b"".join(f.raw for f in frames[:count]))
        )
        assert (b"Stopped." in sent) != finished
        if not finished:
            assert sdk_streams(sent).stop_reason == "end_turn"


def test_closing_after_an_abandoned_answer_counts_its_usage() -> None:
    out = writer()
    sent = abandoned(out, ONLY) + out.closing("Stopped.")
    read_strictly(sent)
    assert content_of(sent) == [("text", "Let me do that."), ("text", "\n\nStopped.")]
    assert sdk_streams(sent).usage.output_tokens == 20
    unopened = writer()
    unopened.abandoned((), reader().turn())
    read_strictly(unopened.closing(""))


def test_a_failure_is_an_error_event_after_which_nothing_follows() -> None:
    """F1, C4: in the shape that the SDK expects, with fields for programs."""
    out = writer()
    frames = frames_of(ONLY)
    sent = b"".join(out.passed(frame) for frame in frames[:4]) + out.failed(BROKEN_OFF)
    assert out.passed(frames[4]) == out.closing("x") == out.failed(BROKEN_OFF) == b""
    with pytest.raises(anthropic.APIStatusError) as raised:
        sdk_streams(sent)
    assert raised.value.body == {
        "type": "error",
        "error": {"type": "api_error", "message": "The stream broke off.", "budget": "rounds"},
    }


def test_the_providers_own_error_passes_as_it_is() -> None:
    """C024."""
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert through(writer(), opening() + text(0, "The") + error + PING).endswith(error)


def test_an_event_that_nobody_can_read_reaches_nobody() -> None:
    junk = b'event: content_block_start\ndata: {"type":"content_block_start","content_block":{"type":"tool_use"},NaN}\n\n'
    sent = through(writer(), opening() + junk + ONLY)
    assert b"NaN" not in sent
    assert events_of(sent)[-1]["error"]["type"] == "api_error"


def test_an_unfinished_event_is_left_out_so_that_an_error_can_follow() -> None:
    out = writer()
    sent = through(out, opening() + b'event: content_block_start\ndata: {"type":') + out.failed(BROKEN_OFF)
    assert [event["type"] for event in events_of(sent)] == ["message_start", "error"]


def test_keep_alive_is_no_event() -> None:
    """C031: it is no content."""
    out = writer()
    cut = ONLY.index(b"event: content_block_delta")
    assert content_of(ONLY[:cut] + out.keep_alive() + ONLY[cut:]) == content_of(ONLY)


# --- anything ---------------------------------------------------------------------------------------------------

KINDS = st.sampled_from(["text", "thinking", "call", "nameless", "hosted", "unfinished", "ping"])


def answer_of(kinds: list[str], secret: str, in_opening: int) -> bytes:
    """An answer with these blocks; every call carries `secret` in its id or its arguments."""
    blocks: list[bytes] = []
    whole: list[Json] = []
    for kind in kinds:
        index = len(whole) + sum(not block.startswith(PING) for block in blocks)
        call_id = f"{secret}-{index}"
        if kind in {"text", "call"} and len(whole) < in_opening and not blocks:
            block: Json = {"type": "text", "text": "t"}
            if kind == "call":
                block = {"type": "tool_use", "id": call_id, "name": "n", "input": {"x": secret}}
            whole.append(block)
        elif kind == "ping":
            blocks.append(PING)
        elif kind == "text":
            blocks.append(text(index, "a", "", "b"))
        elif kind == "thinking":
            blocks.append(thinking(index, "th"))
        elif kind == "hosted":
            blocks.append(call(index, "srv", "web_search", "{}", kind="server_tool_use"))
        else:
            made = call(index, "" if kind == "nameless" else call_id, "n", "", f'{{"x":"{secret}"}}')
            blocks.append(made[: made.index(b"event: content_block_stop")] if kind == "unfinished" else made)
    return opening(whole) + b"".join(blocks) + ending("tool_use")


def calls_of(stream: bytes) -> list[str]:
    frames: list[Frame] = frames_of(stream)
    return [event.call.id for frame in frames for event in frame.events if isinstance(event, CallReady)]


@given(
    st.lists(st.lists(KINDS, max_size=6), min_size=1, max_size=3),
    st.integers(0, 2),
    st.sets(st.integers(0, 5)),
    st.sampled_from(["", NOTE]),
)
def test_any_answers_with_any_calls_refused_make_one_proper_stream(
    answers: list[list[str]], in_opening: int, refused: set[int], note: str
) -> None:
    """A3, C7: nothing of a refused call leaves, everything else does, and any reader can read it."""
    out, sent = writer(), b""
    for kinds in answers[:-1]:
        stream = answer_of(kinds, "GONE", in_opening)
        if calls_of(stream):
            sent += abandoned(out, stream)
    last = answer_of(answers[-1], "LAST", in_opening)
    ids = calls_of(last)
    gone = [call_id for place, call_id in enumerate(ids) if place in refused]
    sent += through(out, last, gone, note if gone else "")
    events = read_strictly(sent)
    assert b"GONE" not in sent
    message = sdk_streams(sent)
    kept = [call_id for call_id in ids if call_id not in gone]
    assert [block.id for block in message.content if block.type == "tool_use"] == kept
    wanted = sum(kind in {"text", "thinking", "hosted"} for kind in answers[-1])
    others = [block for block in message.content if block.type != "tool_use"]
    assert len(others) >= wanted
    if gone and not kept:
        assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert (note in "".join(block.text for block in others if block.type == "text")) or not gone


@given(st.integers(0, len(PAIR)))
def test_a_stream_cut_anywhere_lets_no_piece_of_a_call_out(cut: int) -> None:
    """C7: calls of a stream that broke off are never released."""
    whole = PAIR.index(b"event: message_delta")
    end = PAIR.index(b"\n\n", whole) + 2
    sent = through(writer(), PAIR[:cut])
    assert (b"toolu_" in sent) == (cut >= end)


def test_usage_is_carried_when_the_provider_never_told_it() -> None:
    out = writer()
    frames = frames_of(opening() + text(0, "a"))
    sent = b"".join(out.passed(frame) for frame in frames)
    sent += out.abandoned((), reader().turn()) + out.closing("b")
    assert sdk_streams(sent).usage.input_tokens == 100
