"""What every dialect promises about text that the proxy changes: visible text that is rewritten, results as the model is to
read them, and turns whose calls were text. Shown on a written sample and on the recordings."""

import json

import pytest

from proxy.core.messages import (
    Malformed,
    RequestEdit,
    ResultText,
    Role,
    TextDelta,
    TextExchange,
)
from proxy.dialects import DIALECTS, Dialect
from tests.dialects import wire
from tests.dialects.agents import AGENTS, SDK_FAULTS, Agent
from tests.dialects.test_contract import events_of, fresh_ids, fresh_writer, read, read_whole


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


@pytest.fixture
def agent(dialect: Dialect) -> Agent:
    return AGENTS[dialect.name]


def text_in(dialect: Dialect, stream: bytes) -> str:
    """The visible text of the first choice."""
    found = [event for event in events_of(read(dialect, stream)[0]) if isinstance(event, TextDelta)]
    return "".join(event.text for event in found if event.choice == 0)


def rewritten(dialect: Dialect, stream: bytes, replaced: dict[str, str]) -> bytes:
    """The stream with the text of frames replaced."""
    out = fresh_writer(dialect)
    sent = b""
    for frame in read(dialect, stream)[0]:
        said = "".join(
            event.text for event in frame.events if isinstance(event, TextDelta) and event.choice == 0
        )
        sent += out.rewritten(frame, replaced.get(said, said)) if said else out.passed(frame)
    return sent


def test_visible_text_of_a_stream_can_be_rewritten(dialect: Dialect, agent: Agent) -> None:
    """C6: what may not be shown is cut out of the text; calls and the end stay."""
    pieces = [
        event.text for event in events_of(read(dialect, agent.stream)[0]) if isinstance(event, TextDelta)
    ]
    other = rewritten(dialect, agent.stream, {pieces[0]: "Zug", **dict.fromkeys(pieces[1:], "")})
    before, after = agent.reads_stream(agent.stream), agent.reads_stream(other)
    assert after.text == "Zug"
    assert after.calls == before.calls


def test_a_stream_can_lose_all_its_text(dialect: Dialect, agent: Agent) -> None:
    pieces = [
        event.text for event in events_of(read(dialect, agent.stream)[0]) if isinstance(event, TextDelta)
    ]
    after = agent.reads_stream(rewritten(dialect, agent.stream, dict.fromkeys(pieces, "")))
    assert after.text == ""
    assert after.calls == agent.reads_stream(agent.stream).calls


@pytest.mark.parametrize("text", ["", 'Zug 🏔 "first"\n'])
def test_visible_text_of_a_whole_answer_can_be_rewritten(dialect: Dialect, agent: Agent, text: str) -> None:
    after = agent.reads_whole(dialect.rewrite_response(agent.whole, text))
    assert after.text == text
    assert after.calls == agent.reads_whole(agent.whole).calls


def test_recorded_streams_read_the_same_with_their_own_text(dialect: Dialect) -> None:
    for one in wire.recorded(dialect.name):
        if one.is_stream:
            again = rewritten(dialect, one.answer, {})
            assert text_in(dialect, again) == text_in(dialect, one.answer), one.id
            assert read(dialect, again)[1].calls == read(dialect, one.answer)[1].calls, one.id


def test_recorded_answers_read_the_same_with_other_text(dialect: Dialect) -> None:
    for one in wire.recorded(dialect.name):
        turn = None if one.is_stream else read_whole(dialect, one.answer)
        if turn is None or turn.error is not None or not turn.text:
            continue
        again = dialect.parse_response(dialect.rewrite_response(one.answer, "Other."), fresh_ids())
        assert (again.text, again.calls) == ("Other.", turn.calls), one.id


def test_a_result_is_read_by_the_model_as_it_is_rendered(dialect: Dialect, agent: Agent) -> None:
    """B5, C9: nothing before the result moves (A7), and a note can still follow."""
    before = dialect.parse_request(agent.request)
    index = next(place for place, message in enumerate(before.messages) if message.results)
    edit = RequestEdit(results=(ResultText(index, 0, 'short "🏔"'),))
    body = dialect.edit_request(agent.request, edit)
    after = dialect.parse_request(body)
    assert after.messages[index].results[0].text == 'short "🏔"'
    assert after.messages[index].results[0].call_id == before.messages[index].results[0].call_id
    assert after.messages[:index] == before.messages[:index]
    same = next(
        place for place, pair in enumerate(zip(body, agent.request, strict=False)) if pair[0] != pair[1]
    )
    assert b"not it" not in agent.request[:same]

    noted = dialect.edit_request(agent.request, RequestEdit(results=edit.results, note="Stop now."))
    assert b"Stop now." in noted
    assert b"short" in noted
    assert len(dialect.parse_request(noted).messages) >= len(before.messages)


def test_recorded_results_can_be_rendered(dialect: Dialect) -> None:
    for one in wire.recorded(dialect.name):
        if not one.request:
            continue
        try:
            before = dialect.parse_request(one.request)
        except Malformed:
            continue
        places = [
            (at, number)
            for at, message in enumerate(before.messages)
            for number, result in enumerate(message.results)
            if result.text
        ]
        results = tuple(ResultText(at, number, f"R{at}.{number}") for at, number in places)
        after = dialect.parse_request(dialect.edit_request(one.request, RequestEdit(results=results)))
        for at, number in places:
            text = after.messages[at].results[number].text
            assert text.startswith(f"R{at}.{number}"), one.id


def test_a_turn_whose_calls_were_text_goes_back_as_text(dialect: Dialect, agent: Agent) -> None:
    """C5: the assistant's words, then the refusal in the place of a result."""
    exchange = TextExchange("Action: lookup[x]", "Observation: not allowed")
    before = dialect.parse_request(agent.request)
    edited = dialect.edit_request(agent.request, RequestEdit(exchanges=(exchange,), note="Answer now."))
    said, reply = dialect.parse_request(edited).messages[len(before.messages) :][:2]
    assert (said.role, said.text, said.calls) == (Role.ASSISTANT, "Action: lookup[x]", ())
    assert reply.role is Role.USER
    assert reply.text.startswith("Observation: not allowed")
    assert "Answer now." in json.dumps(json.loads(edited), ensure_ascii=False)


def test_what_shows_no_request_is_no_kept_answer(dialect: Dialect) -> None:
    for body in (b"", b"[]", b"null", b"\xff"):
        with pytest.raises(Malformed):
            dialect.parse_kept(body)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of lists where the SDK expects text
def test_sdks_read_what_was_rewritten(dialect: Dialect, agent: Agent) -> None:
    """F1: whatever an SDK made of a recorded stream, it still makes of it."""
    for one in wire.recorded(dialect.name):
        if not one.is_stream:
            continue
        try:
            before = agent.reads_stream(one.answer)
        except SDK_FAULTS:
            continue
        after = agent.reads_stream(rewritten(dialect, one.answer, {}))
        assert (after.text, after.calls) == (before.text, before.calls), one.id
