"""Items of the Responses API: which of them are calls, whose, and how their results are written.

Source: https://platform.openai.com/docs/api-reference/responses and what servers were seen to send.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.core import json_text
from proxy.core.messages import CallKey, Malformed, ToolCall, ToolKind, ToolResult

from .options import server_tool
from .values import digest, dumped, objects, text

Json = dict[str, Any]
Item = Mapping[str, Any]

_BLANK_PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
"""One transparent dot: the only result that a refused use of a computer can have is a picture."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of call that the agent runs itself."""

    tool: str = ""
    """The name for policy, where the item names none."""
    arguments: str = ""
    """The member that holds them."""
    kind: ToolKind = ToolKind.FUNCTION
    output: str = ""
    """The type of the item that brings the result."""


FORMS: Mapping[str, Form] = {
    "function_call": Form("", "arguments", output="function_call_output"),
    "custom_tool_call": Form("", "input", ToolKind.CUSTOM, "custom_tool_call_output"),
    "local_shell_call": Form("local_shell", "action", output="local_shell_call_output"),
    "shell_call": Form("shell", "action", output="shell_call_output"),
    "apply_patch_call": Form("apply_patch", "operation", output="apply_patch_call_output"),
    "computer_call": Form("computer", "action", output="computer_call_output"),
    "tool_search_call": Form("tool_search", "arguments", output="tool_search_output"),
    "mcp_approval_request": Form("mcp", "arguments", output="mcp_approval_response"),
}
OUTPUTS = frozenset(form.output for form in FORMS.values())
HOSTED = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "program",
        "web_search_call",
        "x_search_call",
    }
)
"""Items that say what the provider has run itself."""
SILENT = frozenset(
    {
        "additional_tools",
        "compaction",
        "item_reference",
        "mcp_list_tools",
        "message",
        "program_output",
        "reasoning",
        *OUTPUTS,
    }
)
"""Items that call nothing."""
_CALL_MEMBERS = ("action", "arguments", "call_id", "code", "input", "name", "namespace", "operation", "type")
_FOLDED = {re.sub(r"[^a-z]", "", name): name for name in _CALL_MEMBERS}
_NO_LETTER = re.compile(r"[^a-z]")
_QUIET = frozenset(
    {
        "annotations",
        "content",
        "created_by",
        "encrypted_content",
        "id",
        "phase",
        "role",
        "status",
        "summary",
        "text",
        "type",
    }
)
"""Members by which nothing can be called: an item of an unknown type that has others as well is taken for a call."""
_CALLING_PART = re.compile(r"_call\Z|tool_?use\Z|tool_?call\Z", re.IGNORECASE)


def type_of(item: Item) -> str:
    """The type of an item; a message may leave its own out."""
    return text(item.get("type")) or ("message" if "role" in item else "")


def is_hosted(item: Item) -> bool:
    """The provider ran it itself: it is told, not asked."""
    kind = type_of(item)
    if kind == "shell_call":
        environment = item.get("environment")
        return isinstance(environment, dict) and text(environment.get("type")).startswith("container")
    return kind in HOSTED or (kind == "tool_search_call" and item.get("execution") == "server")


def is_call(item: Item) -> bool:
    """The agent would run it. What is not known but looks like a call is one."""
    kind = type_of(item)
    if is_hosted(item) or kind in SILENT:
        return False
    return is_call_by_type(item) or not _QUIET.issuperset(item)


def is_call_by_type(item: Item) -> bool:
    """Its type alone says that it is a call."""
    kind = type_of(item)
    return (kind in FORMS or kind.endswith("_call")) and not is_hosted(item)


def call_of(item: Item, key: CallKey, fresh_id: str = "") -> ToolCall:
    """The call that an item is. Raises Malformed where clients may differ about what it calls."""
    _refuse_look_alikes(item)
    kind = type_of(item)
    form = FORMS.get(kind)
    known_id = text(item.get("call_id")) or text(item.get("id"))
    if kind == "mcp_approval_request":
        known_id = text(item.get("id"))
    if form is None:
        rest = {
            name: value for name, value in item.items() if name not in {"id", "call_id", "status", "type"}
        }
        return ToolCall(
            known_id or fresh_id,
            text(item.get("name")) or kind,
            _written(rest),
            key,
            made_id=not known_id,
            form=kind,
        )
    arguments = item.get(form.arguments)
    if kind == "computer_call" and "actions" in item:
        arguments = {key: item[key] for key in ("action", "actions") if item.get(key) is not None}
    if is_cut_off(item) and not isinstance(arguments, str):
        arguments = "cut off"
    return ToolCall(
        known_id or fresh_id,
        _name(item, form),
        _written(arguments),
        key,
        # No tool takes what was cut off in this form: JSON that has no end, or a text where JSON has to be.
        ToolKind.FUNCTION if is_cut_off(item) else form.kind,
        made_id=not known_id,
        form="" if kind == "function_call" else kind,
    )


def hosted_call_of(item: Item, place: int) -> ToolCall:
    """What the provider says that it has run."""
    kind = type_of(item)
    name = text(item.get("name")) or kind.removesuffix("_call")
    if kind == "mcp_call":
        name = server_tool(text(item.get("server_label"))) + "." + name
    said = next((item[key] for key in ("arguments", "action", "code", "queries") if item.get(key)), None)
    return ToolCall(text(item.get("id")), name, _written(said), (0, place), ToolKind.HOSTED, form=kind)


def _name(item: Item, form: Form) -> str:
    name = text(item.get("name"))
    if form.tool == "mcp":
        return f"{server_tool(text(item.get('server_label')))}.{name}"
    if form.tool:
        return form.tool
    namespace = text(item.get("namespace"))
    # A tool that was found by search is in a namespace of its own name.
    return f"{namespace}.{name}" if namespace and namespace != name else name


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else dumped(arguments).decode("utf-8", "surrogatepass")


def is_cut_off(item: Item) -> bool:
    """The model had to stop inside of it."""
    return item.get("status") == "incomplete"


def _refuse_look_alikes(item: Item) -> None:
    for name in item:
        meant = _FOLDED.get(_NO_LETTER.sub("", name.lower()))
        if meant is not None and meant != name:
            raise Malformed("a tool call holds a member that not every client reads alike")


def refuse_hidden(holder: Item) -> None:
    """Raises Malformed where an answer or an event may hold items that not every client looks for, or a message a call."""
    for name in holder:
        meant = _NO_LETTER.sub("", name.lower())
        if meant in {"item", "output", "response"} and name != meant:
            raise Malformed("a member that may hold a tool call is not one that every client reads")
    output = holder.get("output")
    for item in [holder.get("item"), *(output if isinstance(output, list) else ())]:
        if isinstance(item, dict) and type_of(item) == "message":
            for part in objects(item.get("content")):
                if _CALLING_PART.search(text(part.get("type"))) or "arguments" in part:
                    raise Malformed("a message holds a tool call")


def refuse_ambiguity(raw: bytes) -> None:
    """Raises Malformed where a key occurs twice: clients would differ about what is called."""
    try:
        json_text.refuse_double_keys(raw)
    except ValueError:
        raise Malformed("a key occurs twice in the answer") from None


# --- results ---------------------------------------------------------------------------------------------------------


def is_output(item: Item) -> bool:
    """The item brings a result of a call."""
    return type_of(item) in OUTPUTS and item.get("execution") != "server"


def result_of(item: Item) -> ToolResult:
    """The result that an item brings."""
    kind = type_of(item)
    if kind == "mcp_approval_response":
        approved = item.get("approve") is True
        said = "approved" if approved else f"denied {text(item.get('reason'))}".rstrip()
        return ToolResult(text(item.get("approval_request_id")), said)
    call_id = text(item.get("call_id")) or text(item.get("id"))
    # The tools that a search found are offered, not said.
    value = None if kind == "tool_search_output" else item.get("output")
    is_error = text(item.get("status")) in {"failed", "incomplete"}
    return ToolResult(call_id, output_text(value), is_error)


def output_text(value: object) -> str:
    """A result as text. What is no text is named with a digest, so that another picture is another result."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) and "type" in part for part in value):
        return "\n".join(
            text(part.get("text"))
            if is_text_part(part)
            else f"[{text(part.get('type'))} {digest(part).hex()[:12]}]"
            for part in value
        )
    return "" if value is None else dumped(value).decode("utf-8", "surrogatepass")


def output_item(call: ToolCall, said: str) -> bytes:
    """The item that gives this call an error as its result."""
    kind = call.form or ("custom_tool_call" if call.kind is ToolKind.CUSTOM else "function_call")
    form = FORMS.get(kind)
    item: Json = {"type": form.output if form else f"{kind}_output", "call_id": call.id, "output": said}
    if kind == "local_shell_call":
        item = {"type": item["type"], "id": call.id, "output": said}
    elif kind == "shell_call":
        ended = {"stdout": "", "stderr": said, "outcome": {"type": "exit", "exit_code": 1}}
        item["output"] = [ended]
    elif kind == "apply_patch_call":
        item["status"] = "failed"
    elif kind == "computer_call":
        item["output"] = {"type": "computer_screenshot", "image_url": _BLANK_PICTURE}
    elif kind == "tool_search_call":
        item = {**item, "execution": "client", "status": "completed", "tools": []}
        del item["output"]
    elif kind == "mcp_approval_request":
        item = {"type": item["type"], "approval_request_id": call.id, "approve": False, "reason": said}
    return dumped(item)


# --- messages --------------------------------------------------------------------------------------------------------


def is_text_part(part: object) -> bool:
    """Whether a part of a content is visible text."""
    return isinstance(part, dict) and part.get("type", "text") in ("input_text", "output_text", "text")


def said_in(item: Item, between: str = "") -> str:
    """The visible text of a message."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    return between.join(text(part.get("text")) for part in objects(content) if is_text_part(part))


def message_item(said: str, item_id: str) -> Json:
    """A finished message of the assistant."""
    part: Json = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
    return {
        "id": item_id,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
