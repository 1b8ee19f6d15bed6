"""Messages as the conventions write them on spans: JSON text, redacted, capped. Only where the operator asked for it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from proxy.core.messages import Message, Role, ToolCall, Turn

from .printable import clipped, encodable
from .redaction import Redactor

LARGEST = 32_768
"""Characters of one attribute."""
_LARGEST_PART = 8_192

Part = dict[str, object]


def input_messages(messages: Sequence[Message], redactor: Redactor) -> str:
    """`gen_ai.input.messages`: the newest messages that fit, in order; what was left out is said."""
    return _fitting([_message(message, redactor) for message in _newest(messages)], len(messages))


def output_messages(turn: Turn, redactor: Redactor) -> str:
    """`gen_ai.output.messages`: what the model answered."""
    parts = _text(turn.text, redactor) + [_call(call, redactor) for call in turn.calls]
    return _fitting([{"role": "assistant", "parts": parts}], 1)


def arguments(text: str, redactor: Redactor) -> str:
    """`gen_ai.tool.call.arguments`."""
    return encodable(clipped(redactor.json(text), LARGEST))


def _newest(messages: Sequence[Message]) -> list[Message]:
    # From the tail: what is new is there, and a long history need not be rewritten for each request.
    taken: list[Message] = []
    size = 0
    for message in reversed(messages):
        size += len(message.text) + sum(len(result.text) for result in message.results) + 100
        if taken and size > LARGEST:
            break
        taken.append(message)
    return taken[::-1]


def _fitting(written: list[Part], total: int) -> str:
    while True:
        left_out = total - len(written)
        note: list[Part] = [{"role": "system", "parts": [_said(f"[{left_out} earlier messages left out]")]}]
        text = json.dumps(note * bool(left_out) + written, ensure_ascii=False, separators=(",", ":"))
        if len(text) <= LARGEST or not written:
            return encodable(text)
        written = written[1:]


def _message(message: Message, redactor: Redactor) -> Part:
    parts = _text(message.text, redactor) + [_call(call, redactor) for call in message.calls]
    for result in message.results:
        response = clipped(redactor.json(result.text), _LARGEST_PART)
        parts.append({"type": "tool_call_response", "id": result.call_id, "response": response})
    return {"role": (Role.TOOL if message.results else message.role).value, "parts": parts}


def _said(text: str) -> Part:
    return {"type": "text", "content": text}


def _text(text: str, redactor: Redactor) -> list[Part]:
    return [_said(clipped(redactor.text(text), _LARGEST_PART))] if text else []


def _call(call: ToolCall, redactor: Redactor) -> Part:
    written = clipped(redactor.json(call.arguments), _LARGEST_PART)
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": written}
