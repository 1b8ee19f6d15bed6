"""A whole answer of the Responses API: read, edited, rewritten, made by program."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from proxy.core.messages import Malformed, Problem, Request, Turn, Usage
from proxy.dialects.openai_responses_answer import (
    edit_response,
    finish_of,
    gone_with,
    parse_response,
    render_answer,
    render_problem,
    rewrite_response,
    usage_of,
    usage_with,
)
from tests.dialects.responses_agent import USAGE, call, message, response, sdk_reads

READ, DELETE = call("call_1", "read_note", '{"id": 4}'), call("call_2", "delete_note", "{}")
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}}


def ids() -> Iterator[str]:
    return (f"made_{number}" for number in count(1))


def body_of(*items: Any, **more: Any) -> bytes:
    return json.dumps(response(*items) | more).encode()


def parsed(body: bytes) -> Turn:
    return parse_response(body, ids().__next__)


def edited(body: bytes, *refused: int, note: str = "", earlier: tuple[Turn, ...] = ()) -> Any:
    return json.loads(edit_response(body, parsed(body), {(0, place) for place in refused}, note, earlier))


def test_what_an_answer_says() -> None:
    turn = parsed(body_of(THOUGHT, SEARCH, message("Hi. "), READ, store=True))
    assert (turn.id, turn.model, turn.text, turn.finish) == ("resp_1", "maple-1", "Hi. ", ("completed",))
    assert [(one.id, one.name, one.arguments, one.key) for one in turn.calls] == [
        ("call_1", "read_note", '{"id": 4}', (0, 3))
    ]
    assert [one.name for one in turn.hosted_calls] == ["web_search"]
    assert turn.usage == Usage(200, 30)
    assert json.loads(turn.message) == [THOUGHT, SEARCH, message("Hi. "), READ]


@pytest.mark.parametrize(("more", "kept"), [({}, True), ({"store": True}, True), ({"store": False}, False)])
def test_whether_the_provider_keeps_it(more: dict[str, Any], kept: bool) -> None:
    assert parsed(body_of(READ, **more)).is_kept is kept


def test_refused_calls_leave_and_the_note_stands_before_what_stays() -> None:
    """C10, D5."""
    found = edited(body_of(message("Hi."), READ, DELETE), 1, note="Not run.")
    assert [item["type"] for item in found["output"]] == ["message", "message", "function_call"]
    assert found["output"][2] == DELETE
    read = sdk_reads(json.dumps(found).encode())
    assert read.output_text == "Hi.\n\nNot run."


def test_reasoning_leaves_with_the_calls_that_it_led_to() -> None:
    """C7: the provider takes neither back without the other."""
    assert gone_with([THOUGHT, READ, DELETE], {1, 2}) == {0, 1, 2}
    assert gone_with([THOUGHT, READ, DELETE], {1}) == {1}
    assert gone_with([THOUGHT, message("x"), READ], {2}) == {2}


def test_earlier_answers_stand_in_front_with_their_tokens() -> None:
    """C2, E12."""
    earlier = (Turn(text="First.", usage=Usage(10, 5)), Turn(text="", usage=Usage(1, 1)))
    found = edited(body_of(message("Then.")), earlier=earlier)
    before: Any = USAGE
    assert sdk_reads(json.dumps(found).encode()).output_text == "First.\n\nThen."
    assert found["usage"]["input_tokens"] == before["input_tokens"] + 11
    assert found["usage"]["total_tokens"] == before["total_tokens"] + 17


def test_a_call_without_an_id_gets_one() -> None:
    """C003."""
    bare = {key: value for key, value in READ.items() if key not in {"call_id", "id"}}
    found = edited(body_of(bare))
    assert found["output"][0]["call_id"] == "made_1"


def test_the_visible_text_can_be_another() -> None:
    """C3."""
    body = body_of(message("<call/>"), READ, message("More."))
    found = json.loads(rewrite_response(body, "Not run."))
    assert sdk_reads(json.dumps(found).encode()).output_text == "Not run."
    assert found["output"][1] == READ
    without = json.loads(rewrite_response(body_of(READ), "Not run."))
    assert sdk_reads(json.dumps(without).encode()).output_text == "Not run."


FINISHES: dict[str, tuple[dict[str, Any], str]] = {
    "completed": ({"status": "completed"}, "completed"),
    "cut off": ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "max"),
    "queued": ({"status": "queued"}, ""),
    "in progress": ({"status": "in_progress"}, ""),
    "unsaid": ({}, "completed"),
}


@pytest.mark.parametrize(("answer", "word"), FINISHES.values(), ids=FINISHES)
def test_how_it_ended(answer: dict[str, Any], word: str) -> None:
    """C11."""
    assert finish_of(answer).startswith(word)
    assert bool(finish_of(answer)) is bool(word)


def test_usage_is_read_in_all_its_parts_and_what_else_it_says_stays() -> None:
    """E4."""
    record = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "cost": 0.1,
    }
    assert usage_of(record) == Usage(9, 5, cache_read_tokens=4, reasoning_tokens=3)
    assert usage_of(None) is None
    assert usage_with(record, Usage(1, 1))["cost"] == 0.1
    assert usage_with(None, Usage(1, 1))["total_tokens"] == 2


def test_a_failed_answer_tells_its_error() -> None:
    """C4."""
    turn = parsed(body_of(status="failed", error={"code": "server_error", "message": "Oh."}))
    assert turn.error
    assert turn.error.message == "Oh."


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"output":{}}', b'{"choices":[]}', b'{"output":[1]}'])
def test_what_is_no_response_is_malformed(body: bytes) -> None:
    """C3, fail closed."""
    with pytest.raises(Malformed):
        parsed(body)


def test_an_answer_by_program_says_what_it_is_given() -> None:
    """E7."""
    body = render_answer(Request("openai-responses", "m", ()), "resp_own", "Stopped.", Usage(7, 5), 17)
    read = sdk_reads(body)
    assert (read.id, read.output_text, read.status, read.created_at) == (
        "resp_own",
        "Stopped.",
        "completed",
        17,
    )
    assert json.loads(render_problem(Problem(403, "denied", "No.")))["error"]["code"] == "denied"
