"""Calls that are made by a program of the model's, which waits for their results in the provider's container.

Two things differ for them (https://platform.claude.com/docs, programmatic tool calling): the results come back without
any text beside them, and the request that brings them names the container. Also what else waits there needs its name.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from proxy.core import json_text
from proxy.core.messages import Exchange, RequestEdit, ResultText

from .anthropic_blocks import CALL, Json, blocks_of, joined_text, object_of, text_of

_APART = "\n\n"


def by_program(message: object) -> bool:
    """Some call of this assistant message was made by a program."""
    blocks = blocks_of(object_of(message).get("content"))
    return any(
        block.get("type") == CALL
        and text_of(object_of(block.get("caller")).get("type")) not in {"", "direct"}
        for block in blocks
    )


def container_id(holder: Json) -> str:
    """The container that an answer, or the end of one, names."""
    return text_of(object_of(holder.get("container")).get("id"))


def with_container(message: bytes, container: str) -> bytes:
    """The assistant message, with a member that says where its program waits: it does not leave in the message."""
    return message[:-1] + b',"container":' + json_text.quoted(container) + b"}" if container else message


def without_container(message: bytes) -> tuple[bytes, str]:
    """The assistant message as the provider takes it, and the container."""
    container = text_of(object_of(orjson.loads(message)).get("container"))
    if not container:
        return message, ""
    members = json_text.members(message)
    return json_text.spliced(message, json_text.object_edit(members, drop={"container"})), container


def in_container(now: object, container: str) -> object:
    """The request's container, which may hold skills, under this id."""
    return now | {"id": container} if isinstance(now, dict) else container


def noted_in_results(messages: list[Json], has_system: int, edit: RequestEdit) -> RequestEdit:
    """The edit with its note inside the newest result, where a program waits for that; else as it is."""
    if not edit.note:
        return edit
    if edit.exchanges:
        last = edit.exchanges[-1]
        if not (isinstance(last, Exchange) and last.results and by_program(orjson.loads(last.message))):
            return edit
        call, text = last.results[-1]
        noted = replace(last, results=(*last.results[:-1], (call, text + _APART + edit.note)))
        return replace(edit, note="", exchanges=(*edit.exchanges[:-1], noted))
    place = len(messages) - 1
    results = [
        block
        for block in blocks_of(object_of(messages[place]).get("content"))
        if block.get("type") == "tool_result"
    ]
    asked = next(
        (one for one in reversed(messages[:place]) if object_of(one).get("role") == "assistant"), None
    )
    if not results or not by_program(asked):
        return edit
    index = place + has_system, len(results) - 1
    shown = {(one.message_index, one.result_index): one for one in edit.results}
    now = shown.get(index)
    text = now.text if now else joined_text(results[-1].get("content"), "\n")
    shown[index] = ResultText(*index, text + (_APART if text else "") + edit.note)
    return replace(edit, note="", results=tuple(shown.values()))
