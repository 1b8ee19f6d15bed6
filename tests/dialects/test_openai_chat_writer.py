"""What the agent gets of a Chat Completions stream: read by the official SDK, byte by byte where nothing changed."""

import json
import random
from typing import Any

import openai
import pytest
from hypothesis import given, settings, strategies as st

from proxy.core.messages import Problem, Request, Turn, Usage
from tests.dialects.chat_agent import (
    DONE,
    QUIET,
    chunk,
    chunks_of,
    ending,
    frames_of,
    opening,
    piece,
    pieces,
    reader,
    said,
    sdk_calls,
    sdk_streams,
    sse,
    through,
    usage,
    writer,
)

Json = dict[str, Any]
NOTE = "Not allowed."
PAIR = (
    opening()
    + said("Look.")
    + pieces(piece(0, "", "c1", "read"))
    + pieces(piece(1, "", "c2", "drop"))
    + pieces(piece(0, '{"id":4}'), piece(1, '{"id":9}'))
    + ending()
    + usage(200, 30)
    + DONE
)
ONE_CHUNK = (
    sse(
        {
            "id": "m1",
            "object": "chat.completion.chunk",
            "created": 7,
            "model": "small",
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [piece(None, "{}", "c1", "read"), piece(None, "{}", "c2", "drop")],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        }
    )
    + DONE
)


def finishes(stream: bytes) -> list[str]:
    return [
        one["finish_reason"] for part in chunks_of(stream) for one in part["choices"] if one["finish_reason"]
    ]


# --- nothing to change, or little ---


def test_allowed_calls_leave_as_they_came() -> None:
    """A7, F1."""
    for stream in (PAIR, ONE_CHUNK, PAIR.replace(b"\n", b"\r\n")):
        assert through(writer(), stream) == stream


def test_of_two_calls_the_other_is_numbered_from_zero() -> None:
    """C002, C10: id, name and index on its first piece."""
    sent = through(writer(), PAIR, {"read"})
    read = sdk_streams(sent)
    assert sdk_calls(read) == [("c2", "drop", '{"id":9}')]
    assert read.choices[0].finish_reason == "tool_calls"
    first = next(one for part in chunks_of(sent) for one in part["choices"] if "tool_calls" in one["delta"])
    assert first["delta"]["tool_calls"] == [piece(0, "", "c2", "drop")]
    assert b"c1" not in sent


def test_frames_that_need_no_change_keep_their_bytes() -> None:
    sent = through(writer(), PAIR, {"drop"})
    assert sent.startswith(opening() + said("Look.") + pieces(piece(0, "", "c1", "read")))
    assert sent.endswith(ending() + usage(200, 30) + DONE)
    assert len(frames_of(sent)) == len(frames_of(PAIR)) - 1


def test_calls_that_share_an_index_are_told_apart() -> None:
    """C001: also when all of them are allowed, since a client joins by index."""
    stream = opening() + pieces(piece(0, "{}", "c1", "f")) + pieces(piece(0, "{}", "c2", "g"))
    read = sdk_streams(through(writer(), stream + ending() + DONE))
    assert sdk_calls(read) == [("c1", "f", "{}"), ("c2", "g", "{}")]


def test_repeated_ids_and_names_leave_once() -> None:
    """A client that joins strings gets the name that was judged."""
    stream = opening() + pieces(piece(0, '{"a":', "c1", "rm")) + pieces(piece(0, "1}", "c1", "rm"))
    assert sdk_calls(sdk_streams(through(writer(), stream + ending() + DONE))) == [("c1", "rm", '{"a":1}')]


def test_an_id_that_is_missing_or_late_stands_on_the_first_piece() -> None:
    """C003."""
    for late in (None, "c9"):
        stream = opening() + pieces(piece(0, "", None, "f")) + pieces(piece(0, "{}", late)) + ending() + DONE
        sent = through(writer(), stream)
        assert sdk_calls(sdk_streams(sent)) == [(late or "made_1", "f", "{}")]
        first = next(
            one for part in chunks_of(sent) for one in part["choices"] if "tool_calls" in one["delta"]
        )
        assert first["delta"]["tool_calls"][0]["id"] == (late or "made_1")


# --- refused calls ---


def test_with_no_call_left_the_answer_ends_in_the_ordinary_way() -> None:
    """D5: text, the reason, stop."""
    for stream in (PAIR, ONE_CHUNK):
        sent = through(writer(), stream, {"read", "drop"}, NOTE)
        read = sdk_streams(sent)
        assert read.choices[0].message.content.replace("\n", "").removeprefix("Look.") == NOTE
        assert read.choices[0].message.role == "assistant"
        assert (read.choices[0].finish_reason, sdk_calls(read)) == ("stop", [])
        assert read.usage is not None
        assert not any(trace in sent for trace in (b"c1", b"c2", b'\\"id\\"', b"drop"))
        assert sent.endswith(DONE)


def test_the_note_comes_before_the_first_kept_call() -> None:
    sent = chunks_of(through(writer(), PAIR, {"drop"}, NOTE))
    deltas = [one["delta"] for part in sent for one in part["choices"]]
    place = deltas.index({"content": f"\n\n{NOTE}"})
    assert "tool_calls" in deltas[place + 1]


def test_the_note_opens_the_answer_if_nothing_else_has() -> None:
    sent = chunks_of(through(writer(), ONE_CHUNK, {"drop"}, NOTE))
    assert sent[0]["choices"][0]["delta"] == {"role": "assistant", "content": NOTE}
    assert (sent[0]["id"], sent[0]["created"], sent[0]["model"]) == ("m1", 7, "small")
    assert "role" not in sent[1]["choices"][0]["delta"]
    assert [call["id"] for call in sent[1]["choices"][0]["delta"]["tool_calls"]] == ["c1"]


def test_a_repeated_finish_word_is_corrected_each_time() -> None:
    stream = opening() + pieces(piece(0, "{}", "c1", "f")) + ending() + ending() + DONE
    sent = through(writer(), stream, {"f"})
    assert finishes(sent) == ["stop", "stop"]


def test_a_finish_word_that_promises_no_call_stays() -> None:
    stream = opening() + pieces(piece(0, "{", "c1", "f")) + ending("length") + DONE
    assert finishes(through(writer(), stream, {"f"}, NOTE)) == ["length"]


def test_a_finish_of_any_shape_is_passed_on() -> None:
    odd = sse({"choices": [{"index": 0, "delta": {}, "finish_reason": ["tool_calls"]}]})
    stream = opening() + pieces(piece(0, "{}", "c1", "f")) + ending() + odd + DONE
    assert through(writer(), stream, {"f"}) == opening() + ending("stop") + odd + DONE


def test_without_any_finish_the_note_comes_before_the_last_word() -> None:
    stream = opening() + pieces(piece(0, "{}", "c1", "f")) + DONE
    sent = through(writer(), stream, {"f"}, NOTE)
    assert [part["choices"][0]["delta"] for part in chunks_of(sent)][-1] == {"content": NOTE}
    assert sent.endswith(DONE)


def test_a_chunk_keeps_what_else_it_says() -> None:
    """Text, usage, other choices and the opening outlive a refused call."""
    more: Json = {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    stream = (
        chunk({"role": "assistant", "content": "Hm", "tool_calls": [piece(0, "", "c1", "f")]})
        + pieces(piece(0, "{}"), **more)
        + ending()
        + DONE
    )
    sent = chunks_of(through(writer(), stream, {"f"}))
    assert sent[0]["choices"][0]["delta"] == {"role": "assistant", "content": "Hm"}
    assert (sent[1]["choices"], sent[1]["usage"]) == ([], more["usage"])


def test_each_choice_stands_alone() -> None:
    """C10: n > 1, the same id in both."""
    stream = b"".join(
        opening(choice) + pieces(piece(0, "{}", "c1", name), choice=choice)
        for choice, name in ((0, "f"), (1, "g"))
    )
    sent = through(writer(), stream + ending(choice=0) + ending(choice=1) + DONE, {"g"}, NOTE)
    read = sdk_streams(sent)
    assert (sdk_calls(read, 0), sdk_calls(read, 1)) == ([("c1", "f", "{}")], [])
    assert [choice.finish_reason for choice in read.choices] == ["tool_calls", "stop"]
    assert [choice.message.content for choice in read.choices] == [None, NOTE]


def test_a_refused_legacy_call_leaves_no_trace() -> None:
    stream = (
        chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}})
        + chunk({"function_call": {"arguments": '{"a":1}'}})
        + ending("function_call")
        + DONE
    )
    assert through(writer(), stream) == stream
    sent = through(writer(), stream, {"f"}, NOTE)
    assert b"function_call" not in sent
    assert sdk_streams(sent).choices[0].message.content == NOTE


def test_a_frame_that_cannot_be_read_leaves_as_an_error() -> None:
    """Fail closed."""
    stream = opening() + b'data: {"choices":[{"delta":{"tool_calls":[{"id":"c1"\n\n'
    sent = b"".join(map(writer().passed, frames_of(stream)))
    assert b"c1" not in sent
    with pytest.raises(openai.APIError, match="cannot be read"):
        sdk_streams(sent)
    cut = pieces(piece(0, "{}", "c1", "f"))[:-9]
    assert b"".join(map(writer().passed, frames_of(opening() + cut))) == opening()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_the_sdk_gets_exactly_the_calls_that_were_not_refused(seed: int) -> None:
    """C10, D5: whatever the indices, cuts and interleavings."""
    chance = random.Random(seed)
    calls = [
        (f"id_{n}", chance.choice("ab") + str(n), json.dumps({"v": "x" * n}))
        for n in range(chance.randint(1, 4))
    ]
    queues = []
    one_index = chance.random() < 0.3
    for place, (id_, name, arguments) in enumerate(calls):
        index = 0 if one_index else place
        cut = chance.randint(0, len(arguments))
        first = piece(index, arguments[:cut], id_, name)
        again = chance.random() < 0.2
        queues.append([first, piece(index, arguments[cut:], id_ if again else None, name if again else None)])
    stream, held = opening(), [entry for queue in queues for entry in queue]
    if not one_index and chance.random() < 0.7:
        held = [queue.pop(0) for queue in queues] + [
            queue.pop(0) for queue in chance.sample(queues, len(queues))
        ]
    while held:
        size = chance.randint(1, len(held))
        stream += pieces(*held[:size])
        del held[:size]
    refused = {name for _, name, _ in calls if chance.random() < 0.5}
    read = sdk_streams(through(writer(), stream + ending() + DONE, refused, chance.choice(["", NOTE])))
    assert sdk_calls(read) == [call for call in calls if call[1] not in refused]
    kept = len(refused) < len(calls)
    assert read.choices[0].finish_reason == ("tool_calls" if kept else "stop")


# --- usage ---


def test_usage_that_was_not_asked_for_is_not_shown() -> None:
    """E4, and the agent's stream is as it would be without the proxy."""
    stream = opening() + said("hello") + ending("stop") + usage(8, 2) + DONE
    assert through(writer(QUIET), stream) == opening() + said("hello") + ending("stop") + DONE
    assert through(writer(), stream) == stream
    filtered = sse({"id": "", "choices": [], "prompt_filter_results": []})
    assert through(writer(QUIET), filtered) == filtered


# --- continuations ---


def turn_of(stream: bytes) -> Turn:
    read = reader()
    read.feed(stream)
    return read.turn()


def test_another_answer_is_one_with_the_first() -> None:
    """C2: one id, one role, indices and usage that go on."""
    out = writer()
    first = frames_of(opening() + said("Look."))
    sent = b"".join(map(out.passed, first))
    out.abandoned(frames_of(pieces(piece(0, "{}", "c1", "drop")) + ending()), turn_of(PAIR))
    again = PAIR.replace(b"chatcmpl-k1", b"chatcmpl-k2").replace(b"1790000000", b"1790000009")
    sent += through(out, again.replace(b'"role":"assistant",', b'"role":"assistant","x":1,'))
    read = sdk_streams(sent)
    assert read.choices[0].message.role == "assistant"
    assert read.choices[0].message.content == "Look.\n\nLook."
    assert sdk_calls(read) == [("c1", "read", '{"id":4}'), ("c2", "drop", '{"id":9}')]
    assert {(part["id"], part["created"]) for part in chunks_of(sent)} == {("chatcmpl-k1", 1790000000)}
    assert (read.usage.prompt_tokens, read.usage.completion_tokens, read.usage.total_tokens) == (400, 60, 460)


def test_an_answer_that_was_dropped_whole_leaves_nothing_behind() -> None:
    out = writer()
    out.abandoned(frames_of(ONE_CHUNK), turn_of(ONE_CHUNK))
    assert through(out, opening() + said("So.") + ending("stop") + DONE) == (
        opening() + said("So.") + ending("stop") + DONE
    )
    out = writer()
    out.abandoned(frames_of(ONE_CHUNK), turn_of(ONE_CHUNK))
    nested = chunk(
        {}, "stop", x_groq={"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
    )
    assert chunks_of(through(out, nested))[0]["x_groq"]["usage"]["total_tokens"] == 7


def test_a_choice_that_has_ended_is_not_continued() -> None:
    out = writer()
    for frame in frames_of(opening() + said("Done.") + ending("stop")):
        out.passed(frame)
    out.abandoned([], Turn())
    assert through(out, opening() + said("More") + ending("stop") + DONE) == DONE


def test_text_in_parts_is_set_apart_too() -> None:
    out = writer()
    sent = b"".join(map(out.passed, frames_of(opening() + said("A"))))
    out.abandoned([], Turn())
    sent += through(out, chunk({"content": [{"type": "text", "text": "B"}]}))
    assert chunks_of(sent)[-1]["choices"][0]["delta"]["content"][0] == {"type": "text", "text": "\n\n"}


# --- words of the proxy ---


@pytest.mark.parametrize(
    ("before", "text"),
    [(b"", "Stopped."), (opening(), "Stopped."), (opening() + said("Look."), "Look.\n\nStopped.")],
)
def test_a_stream_is_ended_by_program(before: bytes, text: str) -> None:
    """B3, E7: with its opening, its end, and usage if it is known."""
    out = writer()
    sent = b"".join(map(out.passed, frames_of(before))) + out.closing("Stopped.")
    read = sdk_streams(sent)
    assert (read.choices[0].message.content, read.choices[0].finish_reason) == (text, "stop")
    assert read.choices[0].message.role == "assistant"
    assert read.id == ("chatcmpl-k1" if before else "chatcmpl-own")
    assert read.model == "maple-1"
    assert (read.usage, sent.endswith(DONE), out.closing("Again.")) == (None, True, b"")


def test_the_end_by_program_tells_what_all_rounds_cost() -> None:
    """E10: only to an agent that asked."""
    for request, expected in ((None, 235), (QUIET, None)):
        out = writer(request) if request else writer()
        out.abandoned([], Turn(usage=Usage(200, 30)))
        out.passed(frames_of(usage(3, 2))[0]) if request else None
        read = sdk_streams(
            through(out, opening() + chunk({"content": "x"}, x_groq=None)) + out.closing("Stopped.")
        )
        assert read.usage is None if expected is None else read.usage.total_tokens == 230


def test_usage_that_was_sent_is_not_sent_again() -> None:
    out = writer()
    sent = through(out, opening() + ending("stop") + usage(8, 2)) + out.closing("So.")
    assert sum("usage" in part for part in chunks_of(sent)) == 1
    assert sdk_streams(sent).choices[0].message.content == "So."
    assert finishes(sent) == ["stop"]


def test_every_open_choice_is_ended() -> None:
    """n > 1."""
    out = writer(Request("openai-chat", "maple-1", (), stream=True, choices=3))
    for frame in frames_of(opening(1) + said("Done.", 1) + ending("stop", 1)):
        out.passed(frame)
    ended = chunks_of(out.closing("Stopped."))
    finished = [one["index"] for part in ended for one in part["choices"] if one["finish_reason"] == "stop"]
    assert finished == [0, 2]


def test_an_error_is_said_in_the_shape_of_the_dialect() -> None:
    """C4, F1."""
    out = writer()
    sent = out.passed(frames_of(opening())[0])
    sent += out.failed(Problem(403, "budget_exhausted", "Used up.", {"budget": "rounds"}))
    with pytest.raises(openai.APIError, match=r"Used up\.") as raised:
        sdk_streams(sent)
    assert raised.value.code == "budget_exhausted"
    assert chunks_of(sent)[-1]["error"]["budget"] == "rounds"
    assert out.closing("x") == b""


def test_keep_alive_is_a_comment() -> None:
    assert writer().keep_alive() == b": keep-alive\n\n"
