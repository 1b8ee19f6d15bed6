"""Chat Completions as every compatible provider speaks it: read alike, let through to the byte, and refused without a
trace, streamed and whole. The official SDK is the judge of what is left."""

import json
from itertools import count

import pytest

from proxy.core.messages import (
    CallReady,
    ChoiceEnded,
    Exchange,
    RequestEdit,
    StreamEnded,
    StreamFailed,
    Turn,
)
from proxy.dialects.openai_chat import OPENAI_CHAT
from proxy.dialects.openai_chat_parts import KEPT_FOR_HISTORY
from tests.dialects.agents import SDK_FAULTS
from tests.dialects.chat_agent import (
    DONE,
    chunk,
    ending,
    events_of,
    frames_of,
    opening,
    piece,
    pieces,
    reader,
    sdk_calls,
    sdk_reads,
    sdk_streams,
    sse,
    through,
    writer,
)
from tests.dialects.compatible import COMPATIBLE, FOUR, Provider

pytestmark = pytest.mark.filterwarnings(
    "ignore:Pydantic serializer warnings"
)  # of lists where the SDK expects text
NOTE = "[callgate] This was not run."
EACH = pytest.mark.parametrize("provider", COMPATIBLE.values(), ids=COMPATIBLE)
CALLING = pytest.mark.parametrize(
    "provider",
    [one for one in COMPATIBLE.values() if one.calls],
    ids=[key for key, one in COMPATIBLE.items() if one.calls],
)


def streamed(provider: Provider) -> Turn:
    read = reader()
    read.feed(provider.stream)
    read.end()
    return read.turn()


def body_of(provider: Provider) -> bytes:
    return json.dumps(provider.whole, ensure_ascii=False, indent=1).encode()


def whole(provider: Provider) -> Turn:
    numbers = count(1)
    return OPENAI_CHAT.parse_response(body_of(provider), lambda: f"made_{next(numbers)}")


def short(turn: Turn) -> tuple[tuple[str, str, str], ...]:
    return tuple(("" if call.made_id else call.id, call.name, call.arguments) for call in turn.calls)


@EACH
def test_the_same_is_read_streamed_and_whole(provider: Provider) -> None:
    """C1, C3, C10, C11, E4: calls, text, usage and the provider's own finish word."""
    for turn, finish in (
        (streamed(provider), provider.finish),
        (whole(provider), provider.finish if provider.whole_finish is None else provider.whole_finish),
    ):
        assert short(turn) == provider.calls
        assert (turn.text, turn.usage, turn.finish) == (provider.text, provider.usage, (finish,))
        assert turn.error is None
        assert all(call.id for call in turn.calls)
    events = events_of(provider.stream)
    assert not any(isinstance(event, StreamFailed) for event in events)
    assert any(isinstance(event, StreamEnded) for event in events) is provider.is_ended
    # Nothing is judged before the provider says that it is whole.
    ready = [type(event) for event in events if isinstance(event, CallReady | ChoiceEnded | StreamEnded)]
    assert ready[: len(provider.calls)] == [CallReady] * len(provider.calls)


@EACH
def test_what_is_allowed_leaves_to_the_byte(provider: Provider) -> None:
    """F1: but for an id that was missing, which the next request needs."""
    made = [call for call in streamed(provider).calls if call.made_id]
    sent = through(writer(), provider.stream)
    if made and provider.finish != "function_call":
        assert sdk_calls(sdk_streams(sent)) == [(made[0].id, made[0].name, made[0].arguments)]
    else:
        assert sent == provider.stream
    edited = OPENAI_CHAT.edit_response(body_of(provider), whole(provider), (), "", ())
    if made and provider.finish != "function_call":
        assert sdk_calls(sdk_reads(edited)) == [("made_1", made[0].name, made[0].arguments)]
    else:
        assert edited == body_of(provider)


@CALLING
def test_what_is_refused_leaves_no_trace(provider: Provider) -> None:
    """C7, D5: no call, no promise of one, the text that was said, the note, and the usage."""
    turn = whole(provider)
    edited = OPENAI_CHAT.edit_response(body_of(provider), turn, {call.key for call in turn.calls}, NOTE, ())
    sent = through(writer(), provider.stream, {call.name for call in turn.calls}, NOTE)
    for completion in (sdk_reads(edited), sdk_streams(sent)):
        (choice,) = completion.choices
        assert not choice.message.tool_calls
        assert not (choice.message.function_call and choice.message.function_call.name)
        assert choice.finish_reason not in {"tool_calls", "function_call"}
    left = OPENAI_CHAT.parse_response(edited, str)
    again = reader()
    again.feed(sent)
    for said in (left.text, again.turn().text):
        assert said.replace("\n\n", "") == provider.text + NOTE
    for body in (edited, sent):
        assert b"read_note" not in body
        assert FOUR.encode() not in body
        assert json.dumps(FOUR)[1:-1].encode() not in body
    assert (again.turn().calls, again.turn().usage) == ((), provider.usage)


@CALLING
def test_a_refused_turn_goes_back_so_that_its_provider_takes_it(provider: Provider) -> None:
    """A2, A3, C7: every call with its id, arguments that are JSON, and a result each; streamed and whole alike."""
    asked = b'{"model":"m","messages":[{"role":"user","content":"Go."}]}'
    found = []
    for turn in (streamed(provider), whole(provider)):
        exchange = Exchange(turn.message, tuple((call, "no") for call in turn.calls))
        edited = OPENAI_CHAT.edit_request(asked, RequestEdit(exchanges=(exchange,)))
        _, assistant, *results = json.loads(edited)["messages"]
        assert len(results) == len(provider.calls)
        for call in assistant.get("tool_calls") or ():
            assert json.loads(call["function"]["arguments"]) in ({"id": 4}, {"id": 9}, {}, None)
        parsed = OPENAI_CHAT.parse_request(edited).messages
        calls = [call.id for message in parsed for call in message.calls]
        assert [result.call_id for message in parsed for result in message.results] == calls
        found.append((assistant, parsed[1].digest))
    for key in KEPT_FOR_HISTORY:
        assert found[0][0].get(key) == found[1][0].get(key) or key == "extra_content"
    assert ("extra_content" in found[0][0]) is ("extra_content" in found[1][0])
    assert found[0][1] == found[1][1]


@EACH
def test_the_sdk_reads_what_was_judged(provider: Provider) -> None:
    """The bytes judged are the bytes that the tool gets."""
    if provider.finish == "function_call":
        called = sdk_reads(body_of(provider)).choices[0].message.function_call
        assert called is not None
        assert ("", called.name, called.arguments) == provider.calls[0]
        return
    try:
        read = sdk_calls(sdk_streams(provider.stream))
    except SDK_FAULTS:
        return  # the official SDK cannot read this provider's streams
    assert [(id_ or "", name, arguments or "") for id_, name, arguments in read] == list(provider.calls)


# --- endings that are none ---


def test_an_error_at_the_end_of_an_answer_releases_no_call() -> None:
    """C024: a chunk with an error beside a choice, as routers send it."""
    error = {"message": "Upstream gave up", "code": 502}
    stream = (
        b": OPENROUTER PROCESSING\n\n"
        + opening()
        + pieces(piece(0, FOUR, "c1", "read_note"))
        + chunk({"content": ""}, "error", error=error, provider="P")
        + DONE
    )
    events = events_of(stream)
    assert not any(isinstance(event, CallReady) for event in events)
    (failed,) = (event for event in events if isinstance(event, StreamFailed))
    assert (failed.problem.status, failed.problem.message) == (502, "Upstream gave up")


def test_a_finish_word_and_then_an_error_is_an_error_behind_a_whole_call() -> None:
    """C024: what was whole and judged has left; the error follows it."""
    error = sse({"error": {"message": "Busy", "code": 503}})
    stream = opening() + pieces(piece(0, FOUR, "c1", "read_note")) + ending() + error + DONE
    kinds = [type(event) for event in events_of(stream)]
    assert kinds.index(CallReady) < kinds.index(StreamFailed)
    assert through(writer(), stream) == stream


def test_a_call_that_the_provider_itself_found_wrong_is_not_released() -> None:
    """A named event with an error, no finish word and no last word, as Groq ends such a stream."""
    error = {
        "error": {"message": "Tool call validation failed", "code": "tool_use_failed", "status_code": 400}
    }
    stream = (
        chunk({"role": "assistant", "content": ""}, x_groq={"id": "req_1"})
        + chunk({"reasoning": "hm"})
        + pieces(piece(0, FOUR, "c1", "read_note"))
        + b"event: error\n"
        + sse(error)
    )
    (failed,) = (event for event in events_of(stream) if isinstance(event, StreamFailed))
    assert (failed.problem.status, failed.problem.code) == (400, "tool_use_failed")
    assert not any(isinstance(event, CallReady) for event in events_of(stream))


def test_a_stream_without_a_last_word_readies_calls_by_its_finish_word_only() -> None:
    """Some providers close the connection without `[DONE]`."""
    begun = opening() + pieces(piece(0, FOUR, "c1", "read_note"))
    assert not any(isinstance(event, CallReady) for event in events_of(begun))
    assert any(isinstance(event, CallReady) for event in events_of(begun + ending()))


@pytest.mark.parametrize("refused", [set(), {"read_note"}])
def test_several_choices_with_the_same_ids_are_judged_each_for_itself(refused: set[str]) -> None:
    """n>1: both choices carry the same call id."""
    stream = (
        b"".join(
            opening(number) + pieces(piece(0, FOUR, "c1", "read_note"), choice=number) for number in (0, 1)
        )
        + ending(choice=0)
        + ending(choice=1)
        + DONE
    )
    keys = [
        event.call.key
        for frame in frames_of(stream)
        for event in frame.events
        if isinstance(event, CallReady)
    ]
    assert keys == [(0, 0), (1, 0)]
    completion = sdk_streams(through(writer(), stream, refused, NOTE if refused else ""))
    for choice in completion.choices:
        assert bool(choice.message.tool_calls) is not bool(refused)
        assert (NOTE in (choice.message.content or "")) is bool(refused)
        assert (choice.finish_reason == "stop") is bool(refused)
