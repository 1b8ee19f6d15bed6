"""Check `tools`: a call names a tool that was offered and may be used, spelled exactly (C2, D1, D5, D15, C025).

| check | code | action | says |
|---|---|---|---|
| `tools.hosted` | `tool_ambiguous` | DENY | request: a tool that the provider runs has the name of one that the agent runs |
| `tools.hosted` | `hosted_not_inspected` | PASS | request: the provider runs these tools; their calls are not seen before |
| `tools.narrowed` | `tools_narrowed` | PASS | request: these tools are hidden from the model |
| `tools.choice` | `tool_choice_unmet` | PASS | request: the forced tool may not be used, so the choice becomes free |
| `tools.unknown` | `tool_unknown` | REASK | no tool of exactly this name (or of this kind) is on offer |
| `tools.not_allowed` | `tool_not_allowed` | REASK | on offer by the agent, but not allowed here |
| `tools.choice` | `tool_choice_none` | REASK | the agent asked for an answer without calls |
| `tools.choice` | `tool_choice_other` | REASK | the agent's tool choice permits other tools only |

The narrowing itself is an edit of the request; hiding a tool is not enough, so every call is checked again (D1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.messages import UNREADABLE, ChoiceMode, ToolKind
from proxy.core.verdicts import Action, Verdict

from .names import listed, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.messages import ToolCall
    from proxy.core.verdicts import Facts

ALLOW_LIST = "allow_list"
UNREAD = "The call could not be read. Write one call at a time, exactly in the form that was asked for, and nothing behind it."


class ToolsCheck:
    """Which tools may be called."""

    name = "tools"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:
        """Records what is hidden from the model, and what that does to a forced choice."""
        request, allowed = facts.request, facts.decision.allowed_tools
        yield from _hosted(facts)
        if allowed is None:
            return
        hidden = [name for name in request.tool_names if name not in allowed]
        if hidden:
            message = f"Hidden from the model: {listed(hidden)}."
            fields = {"hidden": len(hidden), "offered": len(request.tools)}
            yield Verdict(
                "tools.narrowed",
                "tools_narrowed",
                Action.PASS,
                message,
                reason_class=ALLOW_LIST,
                fields=fields,
            )
        unmet = [name for name in request.tool_choice.names if name not in allowed]
        if unmet:
            message = f"The tool choice names what may not be used: {listed(unmet)}."
            yield Verdict("tools.choice", "tool_choice_unmet", Action.PASS, message, reason_class=ALLOW_LIST)

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:
        """Refuses calls of tools that do not exist, were not offered or are not allowed."""
        for place, call in enumerate(facts.calls):
            refusal = _refusal(facts, call)
            if refusal is not None:
                check, code, message = refusal
                yield Verdict(check, code, Action.REASK, message, place, reason_class=ALLOW_LIST)

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()


def _hosted(facts: Facts) -> Iterator[Verdict]:
    """What the provider runs itself is judged when it is offered, and never again: that is recorded."""
    tools, allowed = facts.request.tools, facts.decision.allowed_tools
    hosted = [tool.name for tool in tools if tool.kind is ToolKind.HOSTED]
    others = {tool.name for tool in tools if tool.kind is not ToolKind.HOSTED}
    if both := [name for name in hosted if name in others]:
        message = f"Tools that the provider runs have the names of tools that the agent runs: {listed(both)}. Rename these."
        yield Verdict(
            "tools.hosted", "tool_ambiguous", Action.DENY, message, reason_class="protocol_mismatch"
        )
    left = [name for name in hosted if allowed is None or name in allowed]
    if left:
        message = f"Run by the provider, their calls are not inspected: {listed(left)}."
        fields = {"hosted": len(left)}
        yield Verdict("tools.hosted", "hosted_not_inspected", Action.PASS, message, fields=fields)


def usable(facts: Facts) -> list[str]:
    """The names of the tools that the model may call, in the agent's order."""
    allowed, choice = facts.decision.allowed_tools, facts.request.tool_choice
    if choice.mode is ChoiceMode.NONE:
        return []
    names = [tool.name for tool in facts.request.tools if tool.kind is not ToolKind.HOSTED]
    names = [name for name in names if allowed is None or name in allowed]
    permitted = [name for name in names if name in choice.names]
    return permitted or names


def _refusal(facts: Facts, call: ToolCall) -> tuple[str, str, str] | None:
    """Check, code and message; None: the call may be made as far as its name goes."""
    allowed, choice = facts.decision.allowed_tools, facts.request.tool_choice
    if call.channel and call.name == UNREADABLE:
        return "tools.unknown", "tool_unknown", UNREAD
    shown = spelled(call.name)
    instead = _instead(facts, call)
    server = _server(facts, call)
    is_offered = any(tool.name == call.name and tool.kind is call.kind for tool in facts.request.tools)
    if not (is_offered or server):
        is_there = facts.request.tool(call.name) is not None
        what = (
            f"The tool {shown} cannot be called in this form." if is_there else f"There is no tool {shown}."
        )
        return "tools.unknown", "tool_unknown", f"{what} {instead}"
    if allowed is not None and allowed.isdisjoint({call.name, server}):
        return "tools.not_allowed", "tool_not_allowed", f"The tool {shown} is not allowed here. {instead}"
    if choice.mode is ChoiceMode.NONE:
        return "tools.choice", "tool_choice_none", "This answer is to be given without tool calls."
    permitted = [name for name in choice.names if allowed is None or name in allowed]
    if permitted and not {call.name, server} & set(permitted):
        message = f"The tool {shown} is not among those permitted for this answer. {instead}"
        return "tools.choice", "tool_choice_other", message
    return None


def _server(facts: Facts, call: ToolCall) -> str:
    """The hosted tool of which this call is a part, named `server.tool`: whoever offers a server offers its tools. No
    plain function is: whatever its name says, nobody offered it."""
    if not call.form:
        return ""
    hosted = (tool.name for tool in facts.request.tools if tool.kind is ToolKind.HOSTED)
    return next((name for name in hosted if call.name.startswith(f"{name}.")), "")


def _instead(facts: Facts, call: ToolCall) -> str:
    names = usable(facts)
    if not names and call.channel:
        return "Use another tool, or answer without tools."  # There are others that only the agent's prompt names.
    if not names:
        return "No tool can be used: answer without tool calls, and say what is missing."
    return f"You can use exactly these names: {listed(names)}. Use one of them, or answer without tools."
