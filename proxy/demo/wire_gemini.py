"""An answer as Gemini's API writes it: body, events, array, error; and what the API refuses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from proxy.demo.answers import Answer, Call, Complaint, Ids, cut

__all__ = ["GeminiWire", "wire_at"]

_Json = dict[str, Any]
_ROUTE = re.compile(r"/v1(?:beta1?)?/(?:.+/)?models/([^/:]+):(generateContent|streamGenerateContent)")
_FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "max_tokens": "MAX_TOKENS"}
_STATUS = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
_FIELDS = frozenset(
    [
        "contents",
        "tools",
        "toolConfig",
        "systemInstruction",
        "safetySettings",
        "generationConfig",
        "cachedContent",
        "labels",
        "model",
    ]
)
_SIGNING = re.compile(r"gemini-[3-9]")
"""Models that want the first call of each step back as signed as they sent it."""
_UPPER = re.compile(r"_([a-z])")
_NAME = re.compile(r"[a-zA-Z_][\w.:-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GeminiWire:
    """The API on one of its routes, which name the model and the form of the answer."""

    model: str
    streams: bool = False
    as_events: bool = False
    """Else a stream is one array."""

    @property
    def stream_type(self) -> str:
        """The media type of the stream that is asked for; empty: a whole answer is."""
        if not self.streams:
            return ""
        return "text/event-stream" if self.as_events else "application/json; charset=UTF-8"

    def headers(self, ids: Ids) -> dict[str, str]:
        """Headers of every response: nothing of its own."""
        del ids
        return {}

    def body(self, answer: Answer, request: Mapping[str, Any], ids: Ids) -> bytes:
        """The whole response, indented as the API does."""
        del request
        parts = [{"text": answer.thinking, "thought": True}] if answer.thinking else []
        parts += [{"text": answer.text}] if answer.text else []
        parts += _calls(answer)
        parts += [{"text": answer.text_after}] if answer.text_after else []
        return orjson.dumps(
            self._record(answer, parts, _response_id(ids), ends=True), option=orjson.OPT_INDENT_2
        )

    def frames(self, answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[bytes]:
        """The stream, one entry an element. Each of them tells the usage."""
        del request
        said: list[_Json] = [{"text": one, "thought": True} for one in cut(answer.thinking, answer.pieces)]
        said += [{"text": one} for one in cut(answer.text, answer.pieces)]
        said += _calls(answer)
        said += [{"text": one} for one in cut(answer.text_after, answer.pieces)]
        id_ = _response_id(ids)
        elements = [orjson.dumps(self._record(answer, [part], id_, ends=False)) for part in said]
        elements.append(orjson.dumps(self._record(answer, [{"text": ""}], id_, ends=True)))
        if self.as_events:
            return [b"data: " + one + b"\r\n\r\n" for one in elements]
        return [*((b",\r\n" if at else b"[") + one for at, one in enumerate(elements)), b"\n]\n"]

    def error(self, found: Complaint, ids: Ids) -> bytes:
        """The error body."""
        del ids
        word = _STATUS.get(found.status, "UNKNOWN")
        return orjson.dumps({"error": {"code": found.status, "message": found.message, "status": word}})

    def models(self, names: tuple[str, ...]) -> bytes:
        """The list of models."""
        return orjson.dumps({"models": [{"name": f"models/{name}"} for name in names]})

    def complaint(self, request: object, headers: Mapping[str, str]) -> Complaint | None:
        """What the API would object to first."""
        del headers
        if not isinstance(request, dict):
            return Complaint("Invalid JSON payload received.")
        signed = _SIGNING.match(self.model) is not None
        try:
            words = next(_objections(_camel(request), signed=signed), None)
        except (AttributeError, KeyError, TypeError):
            words = "Invalid JSON payload received. A value cannot be bound to its field."
        return Complaint(words) if words else None

    def _record(self, answer: Answer, parts: list[_Json], id_: str, *, ends: bool) -> _Json:
        candidate: _Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if ends:
            candidate["finishReason"] = _FINISH.get(answer.finish or "stop", answer.finish)
        record: _Json = {"candidates": [candidate]}
        if answer.usage is not None:
            given, made = answer.usage
            counts = {
                "promptTokenCount": given,
                "candidatesTokenCount": made,
                "totalTokenCount": given + made,
            }
            record["usageMetadata"] = counts
        return {**record, "modelVersion": self.model, "responseId": id_}


def wire_at(path: str) -> GeminiWire | None:
    """The wire that is spoken at a path with its query; None where no model of this API is asked."""
    route, _, query = path.partition("?")
    found = _ROUTE.fullmatch(route)
    if found is None:
        return None
    return GeminiWire(found[1], found[2] != "generateContent", "alt=sse" in query.split("&"))


def _response_id(ids: Ids) -> str:
    return ids.next("", 22)


def _calls(answer: Answer) -> list[_Json]:
    """The calls as parts: without ids, and the first one signed for all."""
    return [_call(call, at) for at, call in enumerate(answer.calls)]


def _call(call: Call, at: int) -> _Json:
    said: _Json = {"name": call.name, "args": orjson.Fragment(call.text())}
    if call.id is not None:
        said["id"] = call.id
    return {"functionCall": said} if at else {"functionCall": said, "thoughtSignature": "c2lnbmVk"}


# --- strictness ----------------------------------------------------------------------------------------------------------


def _camel(value: Any) -> Any:
    """Either spelling of the wire as one; what stands in arguments, results and schemas is left alone."""
    if isinstance(value, list):
        return [_camel(one) for one in value]
    if not isinstance(value, dict):
        return value
    plain = {_UPPER.sub(lambda found: found[1].upper(), key): one for key, one in value.items()}
    own = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"}
    return {key: one if key in own else _camel(one) for key, one in plain.items()}


def _objections(request: _Json, *, signed: bool) -> Iterator[str]:
    for key in request.keys() - _FIELDS:
        yield f'Invalid JSON payload received. Unknown name "{key}": Cannot find field.'
    contents = request.get("contents")
    contents = [contents] if isinstance(contents, dict) else contents
    if not isinstance(contents, list) or not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
        return
    for place, content in enumerate(contents):
        yield from _content_objections(content, f"contents[{place}]")
    yield from _order_objections(contents, signed=signed)
    yield from _tool_objections(request)


def _content_objections(content: Any, where: str) -> Iterator[str]:
    if not isinstance(content, dict):
        yield f"Invalid value at '{where}'"
        return
    if content.get("role", "user") not in {"user", "model", "function"}:
        yield "Please use a valid role: user, model."
    if not content.get("parts"):
        yield f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty."
    for at, part in enumerate(_parts(content)):
        spot = f"{where}.parts[{at}]"
        data = part.keys() - {"thought", "thoughtSignature", "videoMetadata", "mediaResolution"}
        if len(data) != 1:
            yield f"* GenerateContentRequest.{spot}.data: required oneof field 'data' must have one initialized field"
        if "text" in part and not isinstance(part["text"], str):
            yield f"Invalid value at '{spot}.text' (TYPE_STRING)"
        call, result = part.get("functionCall"), part.get("functionResponse")
        if call is not None and not isinstance(call.get("args", {}), dict):
            yield f"Invalid value at '{spot}.function_call.args' (type.googleapis.com/google.protobuf.Struct)"
        if result is not None and not isinstance(result.get("response"), dict):
            yield f"Invalid value at '{spot}.function_response.response' (type.googleapis.com/google.protobuf.Struct)"
        for kind, one in (("function_call", call), ("function_response", result)):
            if one is not None and not one.get("name"):
                yield f"* GenerateContentRequest.{spot}.{kind}.name: Name cannot be empty."


def _order_objections(contents: list[Any], *, signed: bool) -> Iterator[str]:
    """Calls and their results pair, turn by turn; the newest content is no model's."""
    waiting: Counter[str] = Counter()
    asked = max((at for at, one in enumerate(contents) if _is_asked(one)), default=0)
    for at, content in enumerate(contents):
        calls = [part["functionCall"]["name"] for part in _parts(content) if "functionCall" in part]
        results = [part["functionResponse"]["name"] for part in _parts(content) if "functionResponse" in part]
        if Counter(results) != waiting:
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if calls and (content.get("role") != "model" or at == 0 or contents[at - 1].get("role") == "model"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        first = next((part for part in _parts(content) if "functionCall" in part), {"thoughtSignature": ""})
        if signed and at > asked and "thoughtSignature" not in first:
            yield "Function call is missing a thought_signature in functionCall parts."
        waiting = Counter(calls)
    if contents[-1].get("role") == "model":
        yield "Please ensure that single turn requests end with a user role or the role field is empty."


def _is_asked(content: Any) -> bool:
    """The user's own words: no result, so a turn begins here."""
    return content.get("role") != "model" and not any("functionResponse" in part for part in _parts(content))


def _tool_objections(request: _Json) -> Iterator[str]:
    tools = request.get("tools") or []
    tools = tools if isinstance(tools, list) else [tools]
    for place, tool in enumerate(tools):
        if not tool:
            yield f"* GenerateContentRequest.tools[{place}].tool_type: required one_of 'tool_type' must have one"
    declared = [one for tool in tools for one in tool.get("functionDeclarations") or []]
    names = Counter(one.get("name") for one in declared)
    for name, times in names.items():
        if times > 1:
            yield f"Duplicate function declaration found: {name}"
        if _NAME.fullmatch(name or "") is None:
            yield "* GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name."
    config = (request.get("toolConfig") or {}).get("functionCallingConfig")
    if config is None:
        return
    mode, allowed = config.get("mode"), config.get("allowedFunctionNames") or []
    if not declared and mode in {"ANY", "VALIDATED"}:
        yield "Function calling config is set without function_declarations."
    if allowed and mode not in {"ANY", "VALIDATED"}:
        yield "Allowed function names should only be set when function calling mode is ANY."
    if set(allowed) - names.keys():
        yield "* GenerateContentRequest.tool_config: allowed_function_names should be a subset of the declared names"


def _parts(content: Any) -> list[Any]:
    parts = content.get("parts") or []
    return parts if isinstance(parts, list) else [parts]
