"""A whole answer of the Responses API: read, edited, and made by program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from proxy.core import json_text
from proxy.core.json_text import Splice, quoted
from proxy.core.messages import CallKey, Malformed, Problem, Request, Turn, Usage

from .openai_errors import error_record, problem_of
from .openai_responses_items import (
    Item,
    Json,
    call_of,
    hosted_call_of,
    is_call,
    is_hosted,
    message_item,
    refuse_ambiguity,
    refuse_hidden,
    said_in,
    type_of,
)
from .typed import whole_object
from .values import count, dumped, loaded, objects, text

APART = "\n\n"
_ENDED = "completed"


def parse_response(body: bytes, fresh_id: Callable[[], str]) -> Turn:
    """The answer. Raises Malformed where it is none."""
    return turn_of(answer_in(body), _cuts(body), fresh_id)


def conversation_id(body: bytes) -> str:
    """The id of the conversation that was made. Raises Malformed."""
    made = whole_object(body).get("id")
    if not isinstance(made, str) or not made:
        raise Malformed("the conversation that was made has no id")
    return made


def answer_in(body: bytes) -> Json:
    """The response object of a body. Raises Malformed."""
    try:
        answer = loaded(body)
    except ValueError:
        raise Malformed("the answer is not valid JSON") from None
    if not isinstance(answer, dict) or not (
        isinstance(answer.get("output"), list) or isinstance(answer.get("error"), dict)
    ):
        raise Malformed("the answer holds no output: it is no response")
    refuse_ambiguity(body)
    if any(not isinstance(item, dict) for item in answer.get("output") or ()):
        raise Malformed("an item of the output is no object")
    refuse_hidden(answer)
    return answer


def _cuts(body: bytes) -> list[bytes]:
    place = json_text.locate(body, "output")
    if place is None or body[place.start : place.start + 1] != b"[":
        return []
    return [span.cut(body) for span in json_text.elements(body, place.start).values]


def turn_of(answer: Item, cuts: Sequence[bytes], fresh_id: Callable[[], str]) -> Turn:
    """What a response object says; `cuts` are its items as they stand on the wire. Raises Malformed."""
    items = objects(answer.get("output"))
    calls = [call_of(item, (0, place), fresh_id()) for place, item in enumerate(items) if is_call(item)]
    made = {call.key[1]: call.id for call in calls if call.made_id}
    error = answer.get("error")
    finish = finish_of(answer)
    return Turn(
        id=text(answer.get("id")),
        model=text(answer.get("model")),
        text="".join(said_in(item) for item in items if type_of(item) == "message"),
        calls=tuple(calls),
        hosted_calls=tuple(
            hosted_call_of(item, place) for place, item in enumerate(items) if is_hosted(item)
        ),
        finish=(finish,) if finish else (),
        usage=usage_of(answer.get("usage")),
        message=b"[" + b",".join(_identified(cut, made.get(place)) for place, cut in enumerate(cuts)) + b"]",
        is_kept=answer.get("store") is not False,
        error=problem_of(error) if isinstance(error, dict) else None,
    )


def _identified(item: bytes, made: str | None) -> bytes:
    if made is None:
        return item
    return json_text.spliced(
        item, json_text.object_edit(json_text.members(item), put={"call_id": quoted(made)})
    )


def finish_of(answer: Item) -> str:
    """How it ended; empty: it has not yet."""
    details = answer.get("incomplete_details")
    if isinstance(details, dict) and details.get("reason"):
        return text(details["reason"])
    status = text(answer.get("status"))
    return "" if status in {"queued", "in_progress"} else status or _ENDED


def usage_of(record: object) -> Usage | None:
    """The tokens of an answer; None where it does not tell."""
    if not isinstance(record, dict):
        return None
    read, written = record.get("input_tokens_details"), record.get("output_tokens_details")
    return Usage(
        input_tokens=count(record.get("input_tokens")),
        output_tokens=count(record.get("output_tokens")),
        cache_read_tokens=count(read.get("cached_tokens")) if isinstance(read, dict) else 0,
        reasoning_tokens=count(written.get("reasoning_tokens")) if isinstance(written, dict) else 0,
    )


def usage_record(usage: Usage) -> Json:
    """The tokens in the provider's words."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def usage_with(record: object, more: Usage) -> Json:
    """The record with the tokens of earlier answers added; what else it says stays."""
    total = (usage_of(record) or Usage()) + more
    return {**(record if isinstance(record, dict) else {}), **usage_record(total)}


# --- edits -----------------------------------------------------------------------------------------------------------


def edit_response(
    body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
) -> bytes:
    """The answer with all changes spliced in. Raises Malformed where they cannot be."""
    made = {call.key[1]: call.id for call in turn.calls if call.made_id and call.key not in refused}
    before = APART.join(one.text for one in earlier if one.text)
    if not (refused or note or earlier or made):
        return body
    answer = answer_in(body)
    items = objects(answer.get("output"))
    gone = gone_with(items, {slot for _, slot in refused})
    try:
        place = json_text.locate(body, "output")
        if place is None:
            raise Malformed("the answer has no output")
        array = json_text.elements(body, place.start)
        first = next((at for at, item in enumerate(items) if at not in gone and is_call(item)), len(items))
        parts: list[bytes] = []
        if before:
            follows = APART if note or turn.text else ""
            parts.append(dumped(message_item(before + follows, f"msg_{turn.id}_before")))
        for at, span in enumerate(array.values):
            if at == first and note:
                parts.append(_noted(note, turn))
            if at not in gone:
                parts.append(_identified(span.cut(body), made.get(at)))
        if note and first >= len(array.values):
            parts.append(_noted(note, turn))
        splices: list[Splice] = [json_text.replaced(array.span, b"[" + b",".join(parts) + b"]")]
        used = [one.usage for one in earlier if one.usage is not None]
        usage = json_text.locate(body, "usage")
        if used and usage is not None:
            total = dumped(usage_with(answer.get("usage"), sum(used, Usage())))
            splices.append(json_text.replaced(usage, total))
        return json_text.spliced(body, splices)
    except ValueError:
        raise Malformed("the answer cannot be edited") from None


def _noted(note: str, turn: Turn) -> bytes:
    return dumped(message_item((APART if turn.text else "") + note, f"msg_{turn.id}_note"))


def gone_with(items: Sequence[Item], refused: Collection[int]) -> set[int]:
    """The places of the refused calls and of the reasoning that led to them alone: without what it led to, the provider
    does not take it back."""
    gone = set(refused)
    for place, item in enumerate(items):
        led_to = list(_led_to(items, place)) if type_of(item) == "reasoning" else []
        if led_to and all(at in refused for at in led_to):
            gone.add(place)
    return gone


def _led_to(items: Sequence[Item], place: int) -> Iterator[int]:
    """The places of what a piece of reasoning is followed by, up to the next one or to a message."""
    at = place + 1
    while at < len(items) and type_of(items[at]) == "reasoning":
        at += 1
    while at < len(items) and type_of(items[at]) not in {"message", "reasoning"}:
        yield at
        at += 1


def rewrite_response(body: bytes, said: str) -> bytes:
    """The answer with other visible text: in its first message, and none in others. Raises Malformed."""
    items = objects(answer_in(body).get("output"))
    splices: list[Splice] = []
    waiting = [said]
    for place, item in enumerate(items):
        content = json_text.locate(body, "output", place, "content")
        if type_of(item) != "message" or content is None:
            continue
        kept = [part for part in objects(item.get("content")) if part.get("type") == "refusal"]
        parts = [text_part(waiting.pop())] if waiting else []
        splices.append(json_text.replaced(content, dumped([*parts, *kept])))
    if waiting and said:
        place_of = json_text.locate(body, "output")
        if place_of is None:
            raise Malformed("the answer has no output")
        added = dumped(message_item(said, "msg_text"))
        splices += json_text.array_edit(json_text.elements(body, place_of.start), append=[added])
    return json_text.spliced(body, splices)


def text_part(said: str) -> Json:
    """A part of a message with this text."""
    return {"type": "output_text", "text": said, "annotations": [], "logprobs": []}


# --- made by program -------------------------------------------------------------------------------------------------


def response_record(request: Request, answer_id: str, status: str, now: int) -> Json:
    """A response object of the proxy's own, without output yet."""
    return {
        "id": answer_id,
        "object": "response",
        "created_at": now,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": request.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def render_answer(request: Request, answer_id: str, said: str, usage: Usage, now: int) -> bytes:
    """A whole answer made by program."""
    record: dict[str, Any] = response_record(request, answer_id, _ENDED, now)
    record["output"] = [message_item(said, f"msg_{answer_id}")] if said else []
    record["usage"] = usage_record(usage)
    return dumped(record)


def render_problem(problem: Problem) -> bytes:
    """The body of an error."""
    return dumped(error_record(problem))
