"""Check `arguments`: exactly one JSON object that fits the tool's own schema (C3, C4, C027, C028).

| check | code | action | says |
|---|---|---|---|
| `arguments.invalid` | `arguments_invalid` | REASK | not exactly one JSON object, too large or too deep; never repaired |
| `arguments.schema` | `arguments_schema` | REASK | does not fit the declared schema: path, keyword, what is expected |
| `arguments.schema_unusable` | `schema_unusable` | PASS | the declared schema cannot be used: nothing was checked |

Messages tell the model what to mend and never quote a value of the arguments. Free-form calls have no JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.json_text import NotOneObject, read_object
from proxy.core.messages import ToolKind
from proxy.core.verdicts import Action, Verdict

from .names import spelled
from .schemas import SchemaUnusable, complaints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.core.messages import ToolCall
    from proxy.core.verdicts import Facts


class ArgumentsCheck:
    """The form of arguments; what they mean is policy."""

    name = "arguments"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:
        """Judges the arguments of every call that has JSON arguments."""
        for place, call in enumerate(facts.calls):
            if call.kind is ToolKind.FUNCTION:
                yield from _judged(facts, place, call)

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()


def _judged(facts: Facts, place: int, call: ToolCall) -> Iterator[Verdict]:
    try:
        arguments = _arguments(facts, place, call)
    except NotOneObject as fault:
        message = (
            f"The arguments of the call to {spelled(call.name)} cannot be used. {fault.reason} "
            "Make the call again with exactly one JSON object as its arguments."
        )
        yield Verdict(
            "arguments.invalid",
            "arguments_invalid",
            Action.REASK,
            message,
            place,
            reason_class="arguments_invalid",
        )
        return
    tool = facts.request.tool(call.name)
    if tool is None or tool.schema is None:
        return
    try:
        found = complaints(tool.schema, arguments)
    except SchemaUnusable as fault:
        message = (
            f"The schema of {spelled(call.name)} cannot be used: {fault}. Its arguments were not checked."
        )
        yield Verdict(
            "arguments.schema_unusable",
            "schema_unusable",
            Action.PASS,
            message,
            place,
            reason_class="schema",
        )
        return
    if found:
        message = (
            f"The arguments of the call to {spelled(call.name)} do not fit its schema. {' '.join(found)} "
            "Make the call again with arguments that fit."
        )
        yield Verdict(
            "arguments.schema", "arguments_schema", Action.REASK, message, place, reason_class="schema"
        )


def _arguments(facts: Facts, place: int, call: ToolCall) -> Mapping[str, object]:
    """The arguments as read already, or read here. Raises NotOneObject, whose reason is for the model."""
    most = facts.settings.max_argument_bytes
    if len(call.arguments) > most or len(call.arguments.encode("utf-8", "surrogatepass")) > most:
        raise NotOneObject(f"They are larger than {most} bytes.")
    parsed = facts.parsed[place] if place < len(facts.parsed) else None
    return read_object(call.arguments, facts.settings.max_argument_depth) if parsed is None else parsed
