"""What OpenAI's Responses API would refuse of a request, given what it remembers of earlier ones.

Worded as the provider words it, so that an SDK and a person see what they would see in production. Fields that the
provider may add tomorrow are not judged; the shape of a conversation is. The judges yield what they object to and go on
as if it were well: only the first complaint is ever taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.demo.answers import Complaint

_ROLES = ("assistant", "system", "developer", "user")
_CHOICES = ("none", "auto", "required")
_OUTPUTS = {
    "function_call": ("function_call_output",),
    "custom_tool_call": ("custom_tool_call_output",),
    "local_shell_call": ("local_shell_call_output",),
    "shell_call": ("shell_call_output",),
    "apply_patch_call": ("apply_patch_call_output",),
    "computer_call": ("computer_call_output",),
    "mcp_approval_request": ("mcp_approval_response",),
    "tool_search_call": ("tool_search_output", "function_call_output"),
}
"""What answers a call, by the type of its item."""
_ANSWERS = frozenset(kind for kinds in _OUTPUTS.values() for kind in kinds)
_WORDS = {"function_call": "function call", "custom_tool_call": "custom tool call"}
_Json = dict[str, Any]


@dataclass(slots=True)
class Remembered:
    """The items of the conversations that the provider keeps."""

    answers: dict[str, list[_Json]] = field(default_factory=dict)
    """By the id of the answer that ends them."""
    conversations: dict[str, list[_Json]] = field(default_factory=dict)

    def before(self, request: Mapping[str, Any]) -> list[_Json]:
        """What stands in front of the input of this request."""
        conversation = request.get("conversation")
        if conversation is not None:
            key = conversation.get("id") if isinstance(conversation, dict) else conversation
            return self.conversations.get(str(key), [])
        return self.answers.get(str(request.get("previous_response_id")), [])


def items_of(request: Mapping[str, Any]) -> list[_Json]:
    """The input as items."""
    given = request.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def complaint(request: object, remembered: Remembered) -> Complaint | None:
    """The first thing that the provider would object to."""
    if not isinstance(request, dict):
        text = "We could not parse the JSON body of your request. The OpenAI API expects a JSON payload."
        return Complaint(text)
    return next(_complaints(request, remembered), None)


def _complaints(request: _Json, remembered: Remembered) -> Iterator[Complaint]:
    if not isinstance(request.get("model"), str) or not request["model"]:
        yield _missing("model")
    yield from _goes_on(request, remembered)
    given = request.get("input")
    if given is None and not request.get("previous_response_id") and not request.get("conversation"):
        text = "One of 'input' or 'previous_response_id' or 'prompt' or 'conversation_id' must be provided."
        yield Complaint(text, "input", "missing_required_parameter")
    if not isinstance(given, str | list | None):
        yield Complaint("Invalid type for 'input': expected a string or an array.", "input", "invalid_type")
    for place, item in enumerate(given if isinstance(given, list) else ()):
        yield from _item(f"input[{place}]", item)
    yield from _tools(request)
    yield from _pairing([*remembered.before(request), *items_of(request)])


def _missing(path: str) -> Complaint:
    return Complaint(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def _goes_on(request: _Json, remembered: Remembered) -> Iterator[Complaint]:
    before = request.get("previous_response_id")
    if before is not None and request.get("conversation") is not None:
        text = "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or 'conversation'."
        yield Complaint(text, code="mutually_exclusive_parameters")
    if before is not None and before not in remembered.answers:
        text = f"Previous response with id '{before}' not found."
        yield Complaint(text, "previous_response_id", "previous_response_not_found")


def _item(path: str, item: object) -> Iterator[Complaint]:
    if not isinstance(item, dict):
        yield Complaint(f"Invalid type for '{path}': expected an object.", path, "invalid_type")
        return
    kind = item.get("type", "message")
    if kind == "message":
        if item.get("role") not in _ROLES:
            listed = ", ".join(f"'{known}'" for known in _ROLES)
            text = f"Invalid value: '{item.get('role')}'. Supported values are: {listed}."
            yield Complaint(text, f"{path}.role", "invalid_value")
        if not isinstance(item.get("content"), str | list):
            yield _missing(f"{path}.content")
    elif kind == "function_call":
        for name in ("call_id", "name", "arguments"):
            if not isinstance(item.get(name), str):
                yield _missing(f"{path}.{name}")
    elif kind == "mcp_approval_response":
        if not isinstance(item.get("approve"), bool):
            yield _missing(f"{path}.approve")
    elif kind in _ANSWERS and kind != "tool_search_output" and "output" not in item:
        yield _missing(f"{path}.output")


def _tools(request: _Json) -> Iterator[Complaint]:
    tools = request.get("tools")
    if not isinstance(tools, list | None):
        yield Complaint("Invalid type for 'tools': expected an array.", "tools", "invalid_type")
        return
    for place, tool in enumerate(tools or ()):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            yield _missing(f"tools[{place}].type")
        elif tool["type"] in {"function", "custom"} and not tool.get("name"):
            yield _missing(f"tools[{place}].name")
        elif tool["type"] == "mcp" and not tool.get("server_label"):
            yield _missing(f"tools[{place}].server_label")
    choice = request.get("tool_choice")
    if isinstance(choice, str) and choice not in _CHOICES:
        listed = "'none', 'auto', and 'required'"
        text = f"Invalid value: '{choice}'. Supported values are: {listed}."
        yield Complaint(text, "tool_choice", "invalid_value")
    names = {tool.get("name") for tool in tools or () if isinstance(tool, dict)}
    if isinstance(choice, dict) and choice.get("type") == "function" and choice.get("name") not in names:
        text = f"Tool choice '{choice.get('name')}' not found in 'tools' parameter."
        yield Complaint(text, "tool_choice")


def _pairing(items: Sequence[_Json]) -> Iterator[Complaint]:
    """Every call has its output behind it, and every output a call of its kind before it."""
    open_: dict[str, str] = {}
    for item in items:
        kind = str(item.get("type"))
        call_id = _id_of(item, kind)
        if kind in _OUTPUTS and not _ran_there(item):
            open_[call_id] = kind
        elif (
            kind in _ANSWERS
            and item.get("execution") != "server"
            and kind not in _OUTPUTS.get(open_.pop(call_id, ""), ())
        ):
            text = f"No tool call found for {kind.replace('_', ' ')} with call_id {call_id}."
            yield Complaint(text, "input")
    for call_id, kind in open_.items():
        if kind != "mcp_approval_request":
            text = f"No tool output found for {_WORDS.get(kind, kind.replace('_', ' '))} {call_id}."
            yield Complaint(text, "input")


def _ran_there(item: _Json) -> bool:
    environment = item.get("environment")
    if item.get("type") == "tool_search_call":
        return item.get("execution") != "client"
    return isinstance(environment, dict) and environment.get("type") != "local"


def _id_of(item: _Json, kind: str) -> str:
    name = {"mcp_approval_response": "approval_request_id", "local_shell_call_output": "id"}.get(kind)
    if kind == "mcp_approval_request":
        name = "id"
    return str(item.get(name or "call_id"))
