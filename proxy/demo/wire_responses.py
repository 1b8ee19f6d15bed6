"""An answer as OpenAI's Responses API writes it: body, stream, error; and what that provider remembers of it.

Key order and nulls are those of real traffic. A tool that was declared in another form than as a function (free text, a
shell, a patch) is called in that form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.demo.answers import Answer, Call, Complaint, Ids, cut
from proxy.demo.strict_responses import Remembered, complaint, items_of
from proxy.demo.wire_openai import error, headers, models

_CREATED = 1_760_000_000  # no clock: the same script gives the same bytes
_INCOMPLETE = {"length": "max_output_tokens", "max_tokens": "max_output_tokens"}
_Json = dict[str, Any]
_RECORD = (
    "id",
    "object",
    "created_at",
    "status",
    "background",
    "error",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "model",
    "output",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
    "metadata",
)
_BESIDE = {  # what only a whole answer has, each behind the member that it follows
    "background": ("billing", "completed_at"),
    "error": ("frequency_penalty",),
    "parallel_tool_calls": ("presence_penalty",),
    "prompt_cache_key": ("prompt_cache_retention",),
}


class Responses:
    """The wire and the memory of one provider."""

    headers = staticmethod(headers)
    error = staticmethod(error)
    models = staticmethod(models)

    def __init__(self) -> None:
        self._remembered = Remembered()
        self._records: dict[str, _Json] = {}
        self._inputs: dict[str, list[_Json]] = {}

    def complaint(self, request: object, headers: Mapping[str, str]) -> Complaint | None:
        """What the provider would object to first, given what it remembers."""
        del headers  # nothing that this dialect demands
        return complaint(request, self._remembered)

    def body(self, answer: Answer, request: Mapping[str, Any], ids: Ids) -> bytes:
        """The whole response, indented as the provider does."""
        output = _output(answer, request, ids)
        record = _record(answer, request, ids.next("resp_", 48), output)
        self._keep(record, request, output)
        return orjson.dumps(_whole(record), option=orjson.OPT_INDENT_2)

    def frames(self, answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[bytes]:
        """The stream, one element an event."""
        output = _output(answer, request, ids)
        record = _record(answer, request, ids.next("resp_", 48), output)
        self._keep(record, request, output)
        opening = record | {
            "status": "in_progress",
            "incomplete_details": None,
            "output": [],
            "usage": None,
        }
        events: list[tuple[str, _Json]] = [
            ("response.created", {"response": opening}),
            ("response.in_progress", {"response": opening}),
        ]
        for place, item in enumerate(output):
            events += _item_events(item, place, answer.pieces)
        ending = "response.incomplete" if record["status"] == "incomplete" else "response.completed"
        events.append((ending, {"response": record}))
        return [
            b"event: %s\ndata: %s\n\n"
            % (kind.encode(), orjson.dumps({"type": kind, "sequence_number": number, **more}))
            for number, (kind, more) in enumerate(events)
        ]

    def kept(self, method: str, answer_id: str, rest: str) -> bytes | Complaint:
        """About an answer that was stored: fetched, deleted, cancelled, or its input listed (`rest` is `/input_items`)."""
        record = self._records.get(answer_id)
        if record is None:
            return Complaint(f"Response with id '{answer_id}' not found.", status=404)
        if method == "DELETE":
            self._records.pop(answer_id)
            self._remembered.answers.pop(answer_id, None)
            return orjson.dumps({"id": answer_id, "object": "response", "deleted": True})
        if rest == "/input_items":
            items = self._inputs[answer_id]
            return orjson.dumps({"object": "list", "data": items, "has_more": False})
        return orjson.dumps(_whole(record), option=orjson.OPT_INDENT_2)

    def _keep(self, record: _Json, request: Mapping[str, Any], output: list[_Json]) -> None:
        history = [*self._remembered.before(request), *items_of(request), *output]
        conversation = request.get("conversation")
        if conversation is not None:
            key = conversation["id"] if isinstance(conversation, dict) else conversation
            self._remembered.conversations[key] = history
        if request.get("store") is not False:
            self._remembered.answers[record["id"]] = history
            self._records[record["id"]] = record
            self._inputs[record["id"]] = items_of(request)


# --- objects ---------------------------------------------------------------------------------------------------------


def _record(answer: Answer, request: Mapping[str, Any], answer_id: str, output: list[_Json]) -> _Json:
    reason = _INCOMPLETE.get(answer.finish or "")
    known: _Json = {
        "id": answer_id,
        "object": "response",
        "created_at": _CREATED,
        "status": "incomplete" if reason else "completed",
        "background": bool(request.get("background")),
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "model": request.get("model", "scripted"),
        "output": output,
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": request.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": request.get("store") is not False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": request.get("tools") or [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(answer.usage) if answer.usage else None,
        "metadata": request.get("metadata") or {},
    }
    return {name: known.get(name) for name in _RECORD}


def _whole(record: _Json) -> _Json:
    added: _Json = {
        "billing": {"payer": "developer"},
        "completed_at": _CREATED + 1,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "prompt_cache_retention": None,
    }
    whole: _Json = {}
    for name, value in record.items():
        whole[name] = value
        whole |= {beside: added[beside] for beside in _BESIDE.get(name, ())}
    return whole


def _output(answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[_Json]:
    items: list[_Json] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        items.append({"id": ids.next("rs_", 48), "type": "reasoning", "summary": summary})
    if answer.text or answer.refusal or not (answer.calls or answer.text_after):
        items.append(_message(ids, answer.text, answer.refusal))
    declared = _declared(request)
    items += [_call(call, declared, ids) for call in answer.calls]
    if answer.text_after:
        items.append(_message(ids, answer.text_after))
    return items


def _message(ids: Ids, said: str, refusal: str = "") -> _Json:
    part = {"type": "refusal", "refusal": refusal} if refusal else _text_part(said)
    return {
        "id": ids.next("msg_", 48),
        "type": "message",
        "status": "completed",
        "content": [part],
        "role": "assistant",
    }


def _text_part(said: str) -> _Json:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": said}


def _declared(request: Mapping[str, Any]) -> dict[str, str]:
    """The type of each tool that was declared in another form than as a function, by name."""
    tools = [tool for tool in request.get("tools") or () if isinstance(tool, dict)]
    return {
        str(tool.get("name") or tool.get("type")): str(tool.get("type"))
        for tool in tools
        if tool.get("type") != "function"
    }


def _call(call: Call, declared: Mapping[str, str], ids: Ids) -> _Json:
    call_id = ids.next("call_") if call.id is None else call.id
    kind = declared.get(call.name)
    done = {"status": "completed"}
    if kind == "custom":
        item = {"id": ids.next("ctc_", 48), "type": "custom_tool_call", **done, "call_id": call_id}
        return {**item, "input": call.text(), "name": call.name}
    if kind == "apply_patch":
        item = {"id": ids.next("apc_", 48), "type": "apply_patch_call", **done, "call_id": call_id}
        return {**item, "operation": orjson.loads(call.text())}
    if kind in {"shell", "local_shell"}:
        item = {"id": ids.next("sh_", 48), "type": f"{kind}_call", **done}
        return {**item, "action": orjson.loads(call.text()), "call_id": call_id}
    item = {"id": ids.next("fc_", 48), "type": "function_call", **done, "arguments": call.text()}
    return {**item, "call_id": call_id, "name": call.name}


def _usage(tokens: tuple[int, int]) -> _Json:
    return {
        "input_tokens": tokens[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(tokens),
    }


# --- events ----------------------------------------------------------------------------------------------------------


def _item_events(item: _Json, place: int, pieces: int) -> Iterator[tuple[str, _Json]]:
    here: _Json = {"item_id": item["id"], "output_index": place}
    yield "response.output_item.added", {"output_index": place, "item": _begun(item)}
    if item["type"] == "message":
        yield from _part_events(here | {"content_index": 0}, item["content"][0], pieces)
    elif item["type"] == "reasoning":
        yield from _thought_events(here | {"summary_index": 0}, item["summary"][0], pieces)
    elif item["type"] == "function_call":
        for piece in cut(item["arguments"], pieces):
            more = {"delta": piece, "obfuscation": "a7Kq2ZxP9dWm3"[: 3 + len(piece) % 10]}
            yield "response.function_call_arguments.delta", here | more
        yield "response.function_call_arguments.done", here | {"arguments": item["arguments"]}
    elif item["type"] == "custom_tool_call":
        for piece in cut(item["input"], pieces):
            yield "response.custom_tool_call_input.delta", here | {"delta": piece}
        yield "response.custom_tool_call_input.done", here | {"input": item["input"]}
    yield "response.output_item.done", {"output_index": place, "item": item}


def _begun(item: _Json) -> _Json:
    begun = item | {"status": "in_progress"} if "status" in item else dict(item)
    empty: _Json = {"content": [], "summary": [], "arguments": "", "input": ""}
    return begun | {name: value for name, value in empty.items() if name in item}


def _part_events(here: _Json, part: _Json, pieces: int) -> Iterator[tuple[str, _Json]]:
    if part["type"] == "refusal":
        yield "response.content_part.added", here | {"part": part | {"refusal": ""}}
        for piece in cut(part["refusal"], pieces):
            yield "response.refusal.delta", here | {"delta": piece}
        yield "response.refusal.done", here | {"refusal": part["refusal"]}
    else:
        yield "response.content_part.added", here | {"part": part | {"text": ""}}
        for piece in cut(part["text"], pieces):
            more = {"delta": piece, "logprobs": [], "obfuscation": "a7Kq2ZxP9dWm3"[: 3 + len(piece) % 10]}
            yield "response.output_text.delta", here | more
        yield "response.output_text.done", here | {"text": part["text"], "logprobs": []}
    yield "response.content_part.done", here | {"part": part}


def _thought_events(here: _Json, part: _Json, pieces: int) -> Iterator[tuple[str, _Json]]:
    yield "response.reasoning_summary_part.added", here | {"part": part | {"text": ""}}
    for piece in cut(part["text"], pieces):
        yield "response.reasoning_summary_text.delta", here | {"delta": piece}
    yield "response.reasoning_summary_text.done", here | {"text": part["text"]}
    yield "response.reasoning_summary_part.done", here | {"part": part}
