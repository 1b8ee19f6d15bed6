"""What every dialect promises, shown on a written sample and on every recording of it. The official SDKs are the judges
of what an agent can read."""

import json
import random
import re
from collections.abc import Callable, Collection, Iterator
from itertools import count, pairwise

import pytest
from hypothesis import given, settings, strategies as st

from proxy.core.messages import (
    CallDelta,
    CallReady,
    ChoiceMode,
    Event,
    Exchange,
    Frame,
    Malformed,
    Message,
    MissingResult,
    Problem,
    Request,
    RequestEdit,
    Role,
    StreamFailed,
    TextDelta,
    ToolChoice,
    ToolKind,
    Turn,
    Usage,
)
from proxy.core.stream_gate import StreamGate
from proxy.dialects import DIALECTS, Dialect, Writer
from tests.dialects import wire
from tests.dialects.agents import AGENTS, SDK_FAULTS, Agent, Read, value_of

NOTE = "[callgate] This was not run."


EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
"""As the fixture, for property tests."""


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


@pytest.fixture
def agent(dialect: Dialect) -> Agent:
    return AGENTS[dialect.name]


@pytest.fixture
def streams(dialect: Dialect) -> list[wire.Exchange]:
    return [one for one in wire.recorded(dialect.name) if one.is_stream]


@pytest.fixture
def wholes(dialect: Dialect) -> list[wire.Exchange]:
    return [
        one for one in wire.recorded(dialect.name) if not one.is_stream and read_whole(dialect, one.answer)
    ]


@pytest.fixture
def requests(dialect: Dialect) -> list[wire.Exchange]:
    return [one for one in wire.recorded(dialect.name) if one.request]


def fresh_ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"made_{next(numbers)}"


def read(dialect: Dialect, *chunks: bytes) -> tuple[list[Frame], Turn]:
    reader = dialect.reader(fresh_ids())
    frames = [frame for chunk in chunks for frame in reader.feed(chunk)]
    frames += reader.end()
    return frames, reader.turn()


def read_whole(dialect: Dialect, body: bytes) -> Turn | None:
    try:
        return dialect.parse_response(body, fresh_ids())
    except Malformed:
        return None


def events_of(frames: list[Frame]) -> list[Event]:
    return [event for frame in frames for event in frame.events]


def fresh_writer(dialect: Dialect) -> Writer:
    return dialect.writer(Request(dialect.name, "maple-1", (), stream=True), "own_1")


def refusing(
    dialect: Dialect,
    frames: list[Frame],
    note: str,
    spared: Collection[str] = (),
    *,
    out: Writer | None = None,
) -> bytes:
    """The stream through the gate, with every call refused whose tool is not spared."""
    gate, out = StreamGate(10**8), out or fresh_writer(dialect)
    sent = b""
    for frame in frames:
        passed = gate.feed(frame)
        if passed is not None:
            sent += out.passed(passed)
        elif gate.ready or gate.failed:
            keys = {call.key for call in gate.calls if call.name not in spared} | set(gate.broken)
            sent += out.resolved(gate.take(), keys, note)
    return sent


def calls_in(turn: Turn, dialect: Dialect) -> list[tuple[str, str, object]]:
    """Calls of a form of the dialect's own have names of its own, and the independent reader others."""
    keeps_ids = AGENTS[dialect.name].has_call_ids
    return [
        (
            "" if call.made_id or not keeps_ids else call.id,
            call.name.rpartition(".")[2] if call.form in PLAIN_FORMS else "",
            value_of(call.arguments),
        )
        for call in turn.calls
    ]


PLAIN_FORMS = frozenset({"", "custom_tool_call"})


def counts_tokens(exchange: wire.Exchange) -> bool:
    """The answer says how many tokens it took."""
    usage = exchange.observed["usage"] or {}
    return any(isinstance(value, int | dict) for value in usage.values())


def observed_calls(exchange: wire.Exchange, dialect: Dialect) -> list[tuple[str, str, object]]:
    found, keeps_ids = exchange.observed["tool_calls"], AGENTS[dialect.name].has_call_ids
    own = [call["name"].endswith("_call") or (call["id"] or "").startswith("mcpr_") for call in found]
    return [
        ((call["id"] or "") if keeps_ids else "", "" if is_own else call["name"], value_of(call["arguments"]))
        for call, is_own in zip(found, own, strict=True)
    ]


# --- nothing changed: the same bytes ---


def test_every_dialect_has_an_agent_and_guarded_paths_of_its_own() -> None:
    assert [dialect.name for dialect in DIALECTS] == list(AGENTS)
    guarded = [
        (route.method, route.path) for dialect in DIALECTS for route in dialect.routes if route.guarded
    ]
    assert len(set(guarded)) == len(guarded)
    assert all(any(route.guarded for route in dialect.routes) for dialect in DIALECTS)


def test_a_request_that_nobody_edits_is_the_very_object(dialect: Dialect, agent: Agent) -> None:
    """A7: nothing added, nothing moved."""
    assert dialect.edit_request(agent.request, RequestEdit()) is agent.request


def other_ends(agent: Agent) -> bytes:
    """The sample with other ends of lines, where it has lines."""
    return agent.stream.replace(b"\n", b"\r\n") if agent.is_lines else agent.stream


def test_a_stream_that_nobody_edits_leaves_byte_for_byte(
    dialect: Dialect, agent: Agent, streams: list[wire.Exchange]
) -> None:
    """F1: also with CRLF, comments, pings, padding and whatever else providers send."""
    for stream in [agent.stream, other_ends(agent), *(one.answer for one in streams)]:
        frames, _ = read(dialect, stream)
        assert b"".join(frame.raw for frame in frames) == stream
        out = fresh_writer(dialect)
        assert b"".join(map(out.passed, frames)) == stream


def test_held_frames_of_calls_that_are_all_allowed_leave_byte_for_byte(
    dialect: Dialect, agent: Agent, streams: list[wire.Exchange]
) -> None:
    """The bytes judged are the bytes that the tool gets."""
    for stream in [agent.stream, *(one.answer for one in streams if "mid-stream-error" not in one.tags)]:
        frames, turn = read(dialect, stream)
        out = refusing(dialect, frames, "", {call.name for call in turn.calls})
        assert out == stream or any(call.made_id for call in turn.calls)


def test_an_answer_that_nobody_edits_is_the_very_object(
    dialect: Dialect, agent: Agent, wholes: list[wire.Exchange]
) -> None:
    for body in [agent.whole, *(one.answer for one in wholes)]:
        turn = dialect.parse_response(body, fresh_ids())
        if not any(call.made_id for call in turn.calls):
            assert dialect.edit_response(body, turn, (), "", ()) is body


# --- read right, wherever the bytes were cut ---


def test_the_sample_is_read_the_same_wherever_it_is_cut(dialect: Dialect, agent: Agent) -> None:
    expected = read(dialect, agent.stream)
    for stream in (agent.stream, other_ends(agent)):
        assert read(dialect, *(stream[at : at + 1] for at in range(len(stream))))[1] == expected[1]
    for cut in range(1, len(agent.stream)):
        assert read(dialect, agent.stream[:cut], agent.stream[cut:]) == expected


@EACH
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_cuts_give_the_same_frames(dialect: Dialect, data: st.DataObject) -> None:
    stream = AGENTS[dialect.name].stream
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    parts = [stream[left:right] for left, right in pairwise([0, *cuts, len(stream)])]
    assert read(dialect, *parts) == read(dialect, stream)


def test_recordings_are_read_the_same_wherever_they_are_cut(
    dialect: Dialect, streams: list[wire.Exchange]
) -> None:
    chance = random.Random(7)
    for one in streams:
        expected = read(dialect, one.answer)
        if len(one.answer) < 6000:
            assert read(dialect, *(one.answer[at : at + 1] for at in range(len(one.answer)))) == expected
        cuts = sorted(chance.sample(range(len(one.answer)), min(40, len(one.answer))))
        parts = [one.answer[left:right] for left, right in pairwise([0, *cuts, len(one.answer)])]
        assert read(dialect, *parts) == expected, one.id


def test_calls_of_recorded_streams_are_what_an_independent_reader_found(
    dialect: Dialect, streams: list[wire.Exchange]
) -> None:
    """C1, C10, C11: all calls, in order, whatever the finish word says."""
    for one in streams:
        frames, turn = read(dialect, one.answer)
        found, observed = calls_in(turn, dialect), observed_calls(one, dialect)
        if b"partialArgs" in one.answer:  # the independent reader did not put them together
            found = [(id_, name, None) for id_, name, _ in found]
            observed = [(id_, name, None) for id_, name, _ in observed]
        assert found == observed, one.id
        failed = any(isinstance(event, StreamFailed) for event in events_of(frames))
        assert failed == bool(one.observed["error"]), one.id
        assert (turn.usage is None) == (not counts_tokens(one)), one.id


def test_calls_of_recorded_answers_are_what_an_independent_reader_found(
    dialect: Dialect, wholes: list[wire.Exchange]
) -> None:
    for one in wholes:
        turn = dialect.parse_response(one.answer, fresh_ids())
        assert calls_in(turn, dialect) == observed_calls(one, dialect), one.id
        assert (turn.usage is None) == (not counts_tokens(one)), one.id


def test_streamed_and_whole_answers_say_the_same(dialect: Dialect, agent: Agent) -> None:
    """C3: one verdict for both, since the checks see the same."""
    _, streamed = read(dialect, agent.stream)
    whole = dialect.parse_response(agent.whole, fresh_ids())
    for turn in (streamed, whole):
        assert turn.text == agent.text
        assert [(call.id, call.name) for call in turn.calls] == list(
            zip(agent.ids, ("read_note", "delete_note"), strict=True)
        )
    assert [value_of(call.arguments) for call in streamed.calls] == [
        value_of(call.arguments) for call in whole.calls
    ]
    assert streamed.usage == whole.usage
    assert streamed.usage is not None


def test_a_stream_that_breaks_off_readies_no_call_that_was_not_ended(dialect: Dialect, agent: Agent) -> None:
    """A call of a stream that broke off is never released."""
    whole, _ = read(dialect, agent.stream)
    ends = [
        at for at, frame in enumerate(whole) if any(isinstance(event, CallReady) for event in frame.events)
    ]
    until = sum(len(frame.raw) for frame in whole[: ends[0]])
    for cut in range(until):
        frames, turn = read(dialect, agent.stream[:cut])
        assert not any(isinstance(event, CallReady) for event in events_of(frames))
        assert turn.calls == ()


# --- refused calls leave no trace ---


def traces(call_id: str, arguments: str) -> list[str]:
    """What must not be left of a call: its id, and its arguments as they stand in JSON text."""
    long_enough = 8
    written = {arguments, json.dumps(arguments)[1:-1], json.dumps(arguments, ensure_ascii=False)[1:-1]}
    return [trace for trace in [call_id, *written] if len(trace) >= long_enough]


def assert_no_trace(dialect: Dialect, sent: bytes, turn: Turn, said: bytes) -> None:
    """`said`: what the agent sees beside calls; a model may repeat in its text what it would have done."""
    for call in turn.calls:
        for trace in traces("" if call.made_id else call.id, call.arguments):
            assert trace.encode() not in sent or trace.encode() in said
    del dialect


def test_with_every_call_refused_the_sdk_reads_a_stream_without_them(
    dialect: Dialect, agent: Agent, streams: list[wire.Exchange]
) -> None:
    """C7, D5: no orphan, no argument, and the stream still ends well."""
    judge = AGENTS[dialect.name].reads_stream
    checked = 0
    for one in streams:
        frames, turn = read(dialect, one.answer)
        if not turn.calls:
            continue
        sent = refusing(dialect, frames, NOTE)
        left, left_turn = read(dialect, sent)
        assert left_turn.calls == (), one.id
        assert not any(isinstance(event, CallDelta) for event in events_of(left)), one.id
        assert_no_trace(dialect, sent, turn, visible(frames))
        before = sdk(judge, one.answer)
        if before is not None:
            checked += 1
            after = judge(sent)
            assert after.calls == (), one.id
            assert after.text.replace(NOTE, "").strip() == before.text.strip(), one.id
    assert checked > (3 if agent.recorded_loops else -1)


def visible(frames: list[Frame]) -> bytes:
    """The frames that carry no piece of a call."""
    calls = (CallDelta, CallReady)
    return b"".join(
        frame.raw for frame in frames if not any(isinstance(event, calls) for event in frame.events)
    )


def sdk(judge: Callable[[bytes], Read], body: bytes) -> Read | None:
    """What the SDK reads; None where it cannot read the provider's own answer."""
    try:
        return judge(body)
    except SDK_FAULTS:
        return None


def test_with_every_call_refused_the_sdk_reads_an_answer_without_them(
    dialect: Dialect, wholes: list[wire.Exchange]
) -> None:
    judge = AGENTS[dialect.name].reads_whole
    for one in wholes:
        turn = dialect.parse_response(one.answer, fresh_ids())
        if not turn.calls:
            continue
        body = dialect.edit_response(one.answer, turn, {call.key for call in turn.calls}, NOTE, ())
        assert dialect.parse_response(body, fresh_ids()).calls == (), one.id
        assert_no_trace(dialect, body, turn, b"")
        if sdk(judge, one.answer) is None and AGENTS[dialect.name].is_strict:
            continue
        after = judge(body)
        assert after.calls == (), one.id
        assert NOTE in after.text, one.id


def test_one_call_is_refused_and_the_other_arrives_whole(dialect: Dialect, agent: Agent) -> None:
    """C10, D5: streamed and not, the agent sees the same."""
    frames, turn = read(dialect, agent.stream)
    for spared, id_, call in zip(("read_note", "delete_note"), agent.ids, turn.calls, strict=True):
        streamed = refusing(dialect, frames, NOTE, {spared})
        keys = {other.key for other in turn.calls} - {call.key}
        whole = dialect.edit_response(
            agent.whole, dialect.parse_response(agent.whole, fresh_ids()), keys, NOTE, ()
        )
        for seen in (agent.reads_stream(streamed), agent.reads_whole(whole)):
            assert seen.calls == ((id_, spared, value_of(call.arguments)),)
            assert seen.text.replace("\n", "") == agent.text + NOTE


# --- what the proxy says itself ---


def test_an_answer_by_program_is_read_back(dialect: Dialect, agent: Agent) -> None:
    """E7: the stop report is an ordinary answer to every SDK."""
    request = dialect.parse_request(agent.request)
    body = dialect.render_answer(request, "own_1", "Stopped: 3 rounds.", Usage(7, 5), 1_790_000_000)
    turn = dialect.parse_response(body, fresh_ids())
    own = "own_1" if agent.has_answer_ids else ""
    assert (turn.id, turn.text, turn.calls, turn.usage) == (own, "Stopped: 3 rounds.", (), Usage(7, 5))
    assert turn.model == request.model
    assert agent.reads_whole(body) == Read(own, "Stopped: 3 rounds.", ())


def test_a_stream_can_be_ended_by_program_at_any_frame(dialect: Dialect, agent: Agent) -> None:
    """B3, E10: before the first frame too."""
    frames, turn = read(dialect, agent.stream)
    for at in range(len(frames) + 1):
        gate, out = StreamGate(10**8), fresh_writer(dialect)
        sent = b""
        ended = False
        for frame in frames[:at]:
            passed = gate.feed(frame)
            if passed is not None:
                sent += out.passed(passed)
            elif gate.ready:
                ended = True
                break
        sent += out.closing("Stopped.")
        seen = agent.reads_stream(sent)
        assert seen.calls == ()
        assert seen.text.endswith("Stopped."), at
        assert_no_trace(dialect, sent, turn, b"")
        if ended:
            break


def test_an_error_in_mid_stream_is_an_error_to_the_sdk(dialect: Dialect, agent: Agent) -> None:
    """C4: with its words and its code."""
    frames, _ = read(dialect, agent.stream)
    out = fresh_writer(dialect)
    sent = out.passed(frames[0]) + out.passed(frames[1])
    sent += out.failed(Problem(403, "budget_exhausted", "The budget is used up.", {"budget": "rounds"}))
    with pytest.raises(Exception, match="The budget is used up"):
        agent.reads_stream(sent)


def test_an_error_body_says_what_it_says(dialect: Dialect, agent: Agent) -> None:
    body = dialect.render_problem(
        Problem(403, "budget_exhausted", "Used up.", {"budget": "rounds", "limit": 3})
    )
    error = agent.reads_problem(body)
    assert error["message"] == "Used up."
    assert (error["budget"], error["limit"]) == ("rounds", 3)


def test_keep_alive_bytes_are_no_content(dialect: Dialect, agent: Agent) -> None:
    alive = fresh_writer(dialect).keep_alive()
    frames, turn = read(dialect, agent.stream)
    spaced = b"".join(frame.raw + alive for frame in frames)
    assert read(dialect, spaced)[1] == turn
    assert agent.reads_stream(spaced) == agent.reads_stream(agent.stream)


def test_another_answer_continues_the_stream(dialect: Dialect, agent: Agent) -> None:
    """C2, E12: the SDK sees one answer, of both rounds' text and usage, with the calls of the last."""
    frames, turn = read(dialect, agent.stream)
    gate, out = StreamGate(10**8), fresh_writer(dialect)
    sent = b""
    for frame in frames:
        passed = gate.feed(frame)
        if passed is not None:
            sent += out.passed(passed)
        elif gate.ready:
            sent += out.abandoned(gate.take(), turn)
            break
    sent += refusing(dialect, frames, "", {"read_note", "delete_note"}, out=out)
    seen, once = agent.reads_stream(sent), agent.reads_stream(agent.stream)
    assert (seen.id, seen.calls) == (once.id, once.calls)
    assert seen.text.replace("\n", "") == agent.text * 2
    usage = read(dialect, sent)[1].usage
    assert usage is not None
    assert turn.usage is not None
    assert usage.output_tokens == 2 * turn.usage.output_tokens


# --- requests ---


def test_recorded_requests_are_read_as_an_independent_reader_read_them(
    dialect: Dialect, requests: list[wire.Exchange]
) -> None:
    """A3, C1: every call and every result in the history, by id; a search for tools that the provider ran is neither."""
    for one in requests:
        request = dialect.parse_request(one.request, one.path)
        results = [result.call_id for message in request.messages for result in message.results]
        calls = [call.id for message in request.messages for call in message.calls]
        searched = {"", None, *re.findall(r'"call_id": "(\w+)", "execution": "server"', one.request.decode())}
        if not AGENTS[dialect.name].has_call_ids:
            assert len(results) == len(one.observed["request_tool_result_ids"]), one.id
            assert len(calls) == len(one.observed["history_call_ids"]), one.id
            continue
        assert results == [id_ for id_ in one.observed["request_tool_result_ids"] if id_ not in searched], (
            one.id
        )
        assert calls == [id_ for id_ in one.observed["history_call_ids"] if id_ not in searched], one.id
        hosted = sum(
            tool.kind is ToolKind.HOSTED for tool in request.tools
        )  # servers of tools are counted too
        spaced = sum("." in tool.name for tool in request.tools)  # a space of tools is counted once
        assert len(request.tools) - hosted - spaced <= one.observed["tools_offered"] <= len(request.tools), (
            one.id
        )
        assert request.stream == one.is_stream, one.id
        assert request.size == len(one.request)


def common_start(left: bytes, right: bytes) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )


def is_insertion(before: bytes, after: bytes) -> bool:
    start = common_start(before, after)
    return after.endswith(before[start:])


def bodies(agent: Agent, requests: list[wire.Exchange]) -> Iterator[bytes]:
    yield agent.request
    yield from (one.request for one in requests)


def test_a_note_is_one_insertion_and_is_said_last(
    dialect: Dialect, agent: Agent, requests: list[wire.Exchange]
) -> None:
    """A7: behind everything that a provider has cached."""
    for body in bodies(agent, requests):
        before = dialect.parse_request(body)
        edited = dialect.edit_request(body, RequestEdit(note="Answer now."))
        after = dialect.parse_request(edited)
        assert is_insertion(body, edited)
        newest = after.messages[-1]
        assert "Answer now." in newest.text + "".join(result.text for result in newest.results)
        kept = len(before.messages) - 1
        assert after.messages[:kept] == before.messages[:kept]
        assert (after.tools, after.tool_choice) == (before.tools, before.tool_choice)


def test_tools_that_stay_keep_their_order_and_bytes(
    dialect: Dialect, agent: Agent, requests: list[wire.Exchange]
) -> None:
    """D1, D15: what is taken away takes no other byte along."""
    for body in bodies(agent, requests):
        before = dialect.parse_request(body)
        keep = frozenset(before.tool_names[1::2])
        if len({*before.tool_names}) == len(keep):
            continue
        if {"model.tools", "cachedContent"} & ({*before.tool_names} - keep):
            with pytest.raises(Malformed, match=r"by itself|may hold tools"):
                dialect.edit_request(body, RequestEdit(keep_tools=keep))
            continue
        edited = dialect.edit_request(body, RequestEdit(keep_tools=keep))
        after = dialect.parse_request(edited)
        assert after.tools == tuple(tool for tool in before.tools if tool.name in keep)
        assert after.messages == before.messages
        assert set(after.tool_choice.names) <= keep
        if not keep:
            assert b'"tool_choice"' not in edited


def test_the_model_can_be_told_not_to_call(
    dialect: Dialect, agent: Agent, requests: list[wire.Exchange]
) -> None:
    """B3: tools stay for the cache, and may not be called."""
    for body in bodies(agent, requests):
        before = dialect.parse_request(body)
        after = dialect.parse_request(
            dialect.edit_request(body, RequestEdit(tool_choice=ToolChoice(ChoiceMode.NONE)))
        )
        if agent.forbids_calls == "no tools":
            assert after.tools == ()
            continue
        assert after.tools == before.tools
        if agent.forbids_calls == "choice" and any(tool.kind is not ToolKind.HOSTED for tool in before.tools):
            assert after.tool_choice.mode is ChoiceMode.NONE


def test_a_refused_turn_and_its_refusals_come_behind_the_history(dialect: Dialect, agent: Agent) -> None:
    """A2, A3, C2: the model sees its own call and what became of it."""
    before = dialect.parse_request(agent.request)
    for turn in (read(dialect, agent.stream)[1], dialect.parse_response(agent.whole, fresh_ids())):
        exchange = Exchange(turn.message, tuple((call, f"refused {call.name}") for call in turn.calls))
        edited = dialect.edit_request(agent.request, RequestEdit(exchanges=(exchange,), note="Mend it."))
        after = dialect.parse_request(edited)
        assert is_insertion(agent.request, edited)
        assert after.messages[: len(before.messages)] == before.messages
        added = after.messages[len(before.messages) :]
        assert added[0].role is Role.ASSISTANT
        # Some dialects have a message a call.
        assert [(call.id, call.name) for message in added for call in message.calls] == [
            (call.id, call.name) for call in turn.calls
        ]
        results = [result for message in added for result in message.results]
        assert [result.call_id for result in results] == list(agent.ids)
        said = [message.text for message in added[1:]] + [result.text for result in results]
        assert "refused read_note" in results[0].text
        assert any("Mend it." in text for text in said)


def test_a_call_without_result_gets_one_behind_its_message(dialect: Dialect, agent: Agent) -> None:
    """C7: streamed histories that were cut by the user are mended in place."""
    turn = dialect.parse_response(agent.whole, fresh_ids())
    orphaned = dialect.edit_request(agent.request, RequestEdit(exchanges=(Exchange(turn.message, ()),)))
    place = next(
        at
        for at, message in enumerate(dialect.parse_request(orphaned).messages)
        if agent.ids[0] in {call.id for call in message.calls}
    )
    missing = tuple(MissingResult(place, call, "It never came back.") for call in turn.calls)
    after = dialect.parse_request(dialect.edit_request(orphaned, RequestEdit(missing_results=missing)))
    results = [result for message in after.messages[place:] for result in message.results]
    assert [(result.call_id, result.text) for result in results] == [
        (id_, "It never came back.") for id_ in agent.ids
    ]


def test_the_output_can_be_capped(dialect: Dialect, agent: Agent, requests: list[wire.Exchange]) -> None:
    """E4: a cap is lowered, never raised."""
    for body in bodies(agent, requests):
        before = dialect.parse_request(body).max_output
        after = dialect.parse_request(dialect.edit_request(body, RequestEdit(max_output=50))).max_output
        assert after == (50 if before is None else min(50, before))


def test_what_an_answer_was_is_recognised_when_it_comes_back(dialect: Dialect, agent: Agent) -> None:
    """A2: whole or streamed, an answer is the same message in the next request."""
    digests = set()
    for turn in (read(dialect, agent.stream)[1], dialect.parse_response(agent.whole, fresh_ids())):
        edit = RequestEdit(exchanges=(Exchange(turn.message, tuple((call, "x") for call in turn.calls)),))
        request = dialect.parse_request(dialect.edit_request(agent.request, edit))
        digests.add(request.messages[3].digest)
    assert len(digests) == 1
    assert all(len(digest) >= 16 for digest in digests)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "user", "tool"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "name", "id", "input", "function", "text", "tools"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@EACH
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_json_is_a_request_or_malformed(dialect: Dialect, data: st.DataObject) -> None:
    """Fail closed: nothing but Malformed, which says what is wrong."""
    request = json.loads(AGENTS[dialect.name].request)
    holder: object = request
    for _ in range(data.draw(st.integers(0, 4))):
        inner = holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ()
        deeper = [part for part in inner if isinstance(part, dict | list) and part]
        if not deeper:
            break
        holder = data.draw(st.sampled_from(deeper))
    if isinstance(holder, dict):
        holder[data.draw(st.sampled_from([*holder, "role", "content"]))] = data.draw(JSON)
    elif isinstance(holder, list):
        holder[data.draw(st.integers(0, len(holder) - 1))] = data.draw(JSON)
    try:
        parsed = dialect.parse_request(json.dumps(request).encode())
    except Malformed:
        return
    edit = RequestEdit(keep_tools=frozenset({"read_note"}), note="x", ask_usage=True, max_output=3)
    edited = dialect.parse_request(dialect.edit_request(json.dumps(request).encode(), edit))
    assert set(edited.tool_names) <= {"read_note"}
    assert len(edited.messages) >= len(parsed.messages)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"messages":1}', b'{"model":{}}']
)
def test_what_is_no_request_is_malformed(dialect: Dialect, body: bytes) -> None:
    with pytest.raises(Malformed):
        dialect.parse_request(body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"<html>", b"{}", b'{"choices":1}', b'{"content":1}']
)
def test_what_is_no_answer_is_malformed(dialect: Dialect, body: bytes) -> None:
    with pytest.raises(Malformed):
        dialect.parse_response(body, fresh_ids())


def test_visible_text_is_what_the_text_events_say(dialect: Dialect, agent: Agent) -> None:
    frames, turn = read(dialect, agent.stream)
    assert "".join(event.text for event in events_of(frames) if isinstance(event, TextDelta)) == turn.text


def mutated(data: st.DataObject, value: object) -> object:
    """The JSON value with one part of it, anywhere inside, replaced by any other JSON."""
    whole = json.loads(json.dumps(value))
    holder = whole
    while True:
        inner = list(holder.values() if isinstance(holder, dict) else holder)
        deeper = [part for part in inner if isinstance(part, dict | list) and part]
        if not deeper or data.draw(st.integers(0, 3)) == 0:
            break
        holder = data.draw(st.sampled_from(deeper))
    place = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
    holder[place] = data.draw(JSON)
    return whole


@EACH
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_json_is_an_answer_or_malformed(dialect: Dialect, data: st.DataObject) -> None:
    """Fail closed: what is read can be edited, and what is edited shows no refused call."""
    body = json.dumps(mutated(data, json.loads(AGENTS[dialect.name].whole))).encode()
    turn = read_whole(dialect, body)
    if turn is not None:
        keys = {call.key for call in turn.calls}
        edited = dialect.edit_response(body, turn, keys, NOTE, (Turn(text="Before.", usage=Usage(1, 1)),))
        assert dialect.parse_response(edited, fresh_ids()).calls == ()


@EACH
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_chunk_can_be_read_and_written(dialect: Dialect, data: st.DataObject) -> None:
    """Fail closed: an odd chunk neither breaks the reader nor lets a refused call through."""
    frames, _ = read(dialect, AGENTS[dialect.name].stream)
    raws = [frame.raw for frame in frames]
    agent = AGENTS[dialect.name]
    place = data.draw(st.sampled_from([at for at, raw in enumerate(raws) if agent.value_in(raw) is not None]))
    raws[place] = agent.frame_with(raws[place], mutated(data, agent.value_in(raws[place])))
    odd, _ = read(dialect, *raws)
    assert b"".join(frame.raw for frame in odd) == b"".join(raws)
    left = read(dialect, refusing(dialect, odd, NOTE))[1]
    assert left.calls == ()
    out = fresh_writer(dialect)
    for frame in odd[:place]:
        out.passed(frame)
    assert isinstance(out.abandoned(odd[place:], left), bytes)
    assert isinstance(b"".join(map(out.passed, odd)) + out.closing("So."), bytes)


def linked(dialect: Dialect) -> Iterator[tuple[wire.Exchange, wire.Exchange]]:
    """Recorded answers with calls, each with the request that brings the results."""
    known = {one.id: one for one in wire.recorded(dialect.name)}
    for run in json.loads((wire.WIRE / "sequences.json").read_text("utf-8")):
        for left, right, how in run["links"]:
            asked, followed = (known.get(run["exchanges"][place]) for place in (left, right))
            if how == "tool-result" and asked and followed and followed.request:
                yield asked, followed


def renamed(message: Message, rebuilt: Message) -> bool:
    """The same calls under other ids: some clients give a call the id of its item."""
    made = [[(call.name, value_of(call.arguments)) for call in one.calls] for one in (message, rebuilt)]
    return bool(message.calls) and made[0] == made[1]


def test_frameworks_send_back_what_the_model_said(dialect: Dialect, agent: Agent) -> None:
    """A2: real agents re-spell an answer, and it is recognised all the same (a few re-write it, or drop a call)."""
    found = 0
    pairs = [
        (asked, followed)
        for asked, followed in linked(dialect)
        if not dialect.parse_request(followed.request).previous  # the provider keeps what it said
    ]
    for asked, followed in pairs:
        turn = read(dialect, asked.answer)[1] if asked.is_stream else read_whole(dialect, asked.answer)
        assert turn is not None
        edit = RequestEdit(exchanges=(Exchange(turn.message, tuple((call, "x") for call in turn.calls)),))
        rebuilt = dialect.parse_request(dialect.edit_request(agent.request, edit)).messages[3]
        sent = dialect.parse_request(followed.request).messages
        found += any(message.digest == rebuilt.digest or renamed(message, rebuilt) for message in sent)
    assert len(pairs) >= agent.recorded_loops
    assert found >= len(pairs) * 0.8
