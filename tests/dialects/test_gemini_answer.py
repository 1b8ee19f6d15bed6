"""Whole answers of Gemini's API: read, edited, made."""

import json
from typing import Any

import pytest

from proxy.core.messages import Malformed, Request, Turn, Usage
from proxy.dialects import gemini_answer
from tests.dialects import gemini_agent as agent

A = agent.call("a", {"x": 1}, thoughtSignature="c2ln")
B = agent.call("b", {"n": 1})
ASKED = Request("gemini", "maple-1", ())


def body_of(*parts: dict[str, Any], finish: str = "STOP", **more: Any) -> bytes:
    return json.dumps(agent.piece(*parts, finish=finish, **more), indent=2).encode()


def read(body: bytes) -> Turn:
    return gemini_answer.parse_response(body, lambda: "made")


def edited(
    body: bytes, refused: set[tuple[int, int]], note: str = "", *earlier: Turn
) -> list[dict[str, Any]]:
    made = gemini_answer.edit_response(body, read(body), refused, note, earlier)
    parts: list[dict[str, Any]] = json.loads(made)["candidates"][0]["content"]["parts"]
    return parts


def test_an_answer_is_read() -> None:
    turn = read(body_of({"text": "Hm.", "thought": True}, {"text": "Hi"}, A, B))
    assert (turn.id, turn.model, turn.text, turn.finish) == ("resp_1", "maple-1", "Hi", ("STOP",))
    assert [(call.name, json.loads(call.arguments)) for call in turn.calls] == [
        ("a", {"x": 1}),
        ("b", {"n": 1}),
    ]
    assert turn.usage == Usage(200, 30)


def test_a_call_among_thousands_is_refused() -> None:
    """Time grows with the answer, not with its square."""
    many = [agent.call("a", {"n": n}) for n in range(1000)]
    assert edited(body_of(*many), {(0, 7)}) == many[:7] + many[8:]


def test_more_candidates_than_any_api_gives_are_refused() -> None:
    one = agent.piece(A)["candidates"][0]
    with pytest.raises(Malformed, match="candidates"):
        read(json.dumps({"candidates": [{**one, "index": n} for n in range(65)]}).encode())


def test_what_the_provider_ran_is_seen_in_every_candidate() -> None:
    ran = {"content": {"parts": [{"executableCode": {"code": "1"}}]}}
    turn = read(json.dumps({"candidates": [{"content": {}, "index": 0}, {**ran, "index": 1}]}).encode())
    assert [call.name for call in turn.hosted_calls] == ["codeExecution"]


def test_what_goes_back_to_the_model_says_whose_it_is() -> None:
    turn = read(b'{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}')
    assert json.loads(turn.message) == {"parts": [{"text": "a"}], "role": "model"}


def test_a_blocked_prompt_is_an_answer() -> None:
    turn = read(b'{"promptFeedback":{"blockReason":"SAFETY"}}')
    assert (turn.finish, turn.calls, turn.message) == (("BLOCKED",), (), b"")


def test_what_the_provider_ran_is_told() -> None:
    ran = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {}, "id": "t1"}}
    (hosted,) = read(body_of(ran, {"executableCode": {"language": "PYTHON", "code": "1"}})).hosted_calls[:1]
    assert (hosted.id, hosted.name) == ("t1", "GOOGLE_SEARCH_WEB")


HIDDEN = '{"functionCall":{"name":"a"}}'


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{}",
        "{",
        '{"candidates":1}',
        '{"candidates":[1]}',
        '{"candidates":[],"candidates":[]}',
        f'{{"candidates":[{{"content":{{"parts":{HIDDEN}}}}}]}}',
        f'{{"candidates":[{{"content":[{HIDDEN}]}}]}}',
        f'{{"candidates":[{{"content":{HIDDEN}}}]}}',
        f'{{"candidates":[{HIDDEN}]}}',
        f'{{"candidates":[],"x":[[{HIDDEN}]]}}',
        f'{{"candidates":[],"promptFeedback":{HIDDEN}}}',
        '{"candidates":[{"content":{"parts":[{"Function_call":{"name":"a"}}]}}]}',
        f'{{"candidates":[{{"content":{{"parts":[{HIDDEN}]}}}},{{"index":0,"content":{{"parts":[{HIDDEN}]}}}}]}}',
        '{"candidates":' + "[" * 300 + "]" * 300 + "}",
    ],
)
def test_an_answer_that_clients_may_read_differently_is_refused(body: str) -> None:
    """C11: the same that a stream is refused for."""
    with pytest.raises(Malformed):
        read(body.encode())


@pytest.mark.parametrize(
    "args", ["1e400", '{"n":1e999}', "123456789012345678901234567890", '{"b":1,"b":2}', "[1]"]
)
def test_strange_arguments_are_left_to_the_judge_to_the_letter(args: str) -> None:
    """C3."""
    body = f'{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"a","args":{args}}}}}]}}}}]}}'
    assert [call.arguments for call in read(body.encode()).calls] == [args]


def test_nothing_to_change_is_nothing_changed() -> None:
    body = body_of(A)
    assert gemini_answer.edit_response(body, read(body), (), "", ()) is body


def test_the_first_call_that_stays_gets_the_signature_of_the_step() -> None:
    """C10."""
    assert edited(body_of({"text": "Hi"}, A, B), {(0, 0)}, "No.") == [
        {"text": "Hi"},
        {"text": "\n\nNo."},
        {**B, "thoughtSignature": "c2ln"},
    ]


def test_signatures_of_calls_that_stay_are_left_alone() -> None:
    assert edited(body_of(A, B), {(0, 1)}, "No.") == [{"text": "No."}, A]


def test_numbers_of_a_call_that_stays_keep_their_digits() -> None:
    """A7: the bytes judged are the bytes the tool gets."""
    digits = b"123456789012345678901234567890.10"
    body = body_of(A, agent.call("b", {"n": "D"})).replace(b'"D"', digits)
    assert digits in gemini_answer.edit_response(body, read(body), {(0, 0)}, "No.", ())


@pytest.mark.parametrize(
    ("finish", "after"), [("UNEXPECTED_TOOL_CALL", "STOP"), ("MAX_TOKENS", "MAX_TOKENS")]
)
def test_a_finish_that_promises_calls_goes_with_them(finish: str, after: str) -> None:
    body = body_of(A, finish=finish)
    made = gemini_answer.edit_response(body, read(body), {(0, 0)}, "No.", ())
    assert json.loads(made)["candidates"][0]["finishReason"] == after


def test_earlier_answers_come_first_and_are_counted() -> None:
    """C7, G3."""
    first = Turn(text="One moment.", usage=Usage(10, 5))
    body = body_of({"text": "Sorry."})
    made = gemini_answer.edit_response(body, read(body), (), "", (first,))
    assert agent.sdk_reads(made)[1] == "One moment.\n\nSorry."
    assert json.loads(made)["usageMetadata"]["totalTokenCount"] == 245


def test_a_note_finds_a_place_in_an_answer_without_parts() -> None:
    for content in ({}, {"content": {"role": "model"}}):
        body = json.dumps({"candidates": [{**content, "finishReason": "STOP"}]}).encode()
        assert edited(body, set(), "Note.") == [{"text": "Note."}]


def test_other_text_takes_the_place_of_all_that_is_visible() -> None:
    body = body_of({"text": "Hm.", "thought": True}, {"text": "a"}, A, {"text": "b"})
    made = json.loads(gemini_answer.rewrite_response(body, "c"))
    assert made["candidates"][0]["content"]["parts"] == [
        {"text": "Hm.", "thought": True},
        {"text": "c"},
        A,
    ]
    with pytest.raises(Malformed):
        gemini_answer.rewrite_response(b'{"promptFeedback":{}}', "c")


def test_answers_of_its_own_are_read_by_the_client() -> None:
    made = gemini_answer.render_answer(ASKED, "id1", "Hi", Usage(3, 4))
    assert agent.sdk_reads(made) == ("id1", "Hi", [])
    assert read(made).usage == Usage(3, 4)
