"""Reads, edits and writes whole (not streamed) Chat Completions answers.

Laws: the calls of a choice are counted in wire order, and choices by their place; an answer in which calls may hide
where no client looks for them is Malformed; an edit changes only what it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from proxy.core import json_text
from proxy.core.json_text import Members, Splice, quoted
from proxy.core.messages import CallKey, Malformed, Problem, Request, ToolCall, ToolKind, Turn, Usage

from .openai_chat_hidden import refuse_hidden
from .openai_chat_parts import (
    CALL_FINISHES,
    KEPT_FOR_HISTORY,
    ORDINARY_FINISH,
    CallPart,
    call_form,
    call_parts,
    hosted_calls,
    is_text_part,
    text_part,
    usage_of,
    usage_record,
    usage_with,
    visible_text,
)
from .openai_errors import error_record, problem_of
from .texts import content_with
from .values import Json, dumped, loaded, text

APART = "\n\n"


@dataclass(frozen=True, slots=True)
class _Choice:
    """One choice of an answer, with its calls and where they stand."""

    message: Json
    finish: str
    parts: tuple[CallPart, ...]


def parse_response(body: bytes, fresh_id: Callable[[], str]) -> Turn:
    """The answer. Raises Malformed where the body is none."""
    answer = _answer(body)
    choices = _choices(answer)
    calls: list[ToolCall] = []
    for number, choice in enumerate(choices):
        for slot, part in enumerate(choice.parts):
            id_ = part.id or fresh_id()
            calls.append(ToolCall(id_, part.name, part.arguments, (number, slot), part.kind, not part.id))
    first = choices[0] if choices else None
    error = answer.get("error")
    return Turn(
        id=text(answer.get("id")),
        model=text(answer.get("model")),
        text=visible_text(first.message.get("content")) if first else "",
        calls=tuple(calls),
        hosted_calls=tuple(
            call for number, choice in enumerate(choices) for call in hosted_calls(choice.message, number)
        ),
        finish=tuple(choice.finish for choice in choices),
        usage=usage_of(answer),
        message=_for_history(first, calls) if first else b"",
        error=problem_of(error) if error else None,
    )


def _answer(body: bytes) -> Json:
    try:
        answer = loaded(body)
    except ValueError:
        raise Malformed("the answer is not valid JSON") from None
    if not isinstance(answer, dict):
        raise Malformed("the answer is not a JSON object")
    if not isinstance(answer.get("choices"), list) and not answer.get("error"):
        raise Malformed("the answer holds no choices")
    refuse_hidden(body, answer)
    return answer


def _choices(answer: Json) -> list[_Choice]:
    found = []
    for choice in answer.get("choices") or ():
        if not isinstance(choice, dict):
            raise Malformed("a choice of the answer is not an object")
        delta = choice.get("delta")
        if isinstance(delta, dict) and any(not part.is_filler for part in call_parts(delta)):
            raise Malformed("the answer holds a tool call outside its message")
        message = choice.get("message")
        if not isinstance(message, dict | None):
            raise Malformed("a message of the answer is not an object")
        message = message or {}
        parts = tuple(part for part in call_parts(message) if not part.is_filler)
        found.append(_Choice(message, text(choice.get("finish_reason")), parts))
    return found


def _for_history(choice: _Choice, calls: Sequence[ToolCall]) -> bytes:
    ids = {call.key: call.id for call in calls}
    made = {part.at: ids[0, slot] for slot, part in enumerate(choice.parts)}
    entries = choice.message.get("tool_calls") or []
    kept = [
        {key: value for key, value in entry.items() if key != "index"}
        | {"id": made[at], "type": entry.get("type") or call_form(entry) or "function"}
        for at, entry in enumerate(entries)
        if at in made
    ]
    legacy = choice.message.get("function_call") if None in made else None
    content = choice.message.get("content")
    said = visible_text(content) if isinstance(content, dict) else content
    return history_message(said, kept, legacy, choice.message)


def history_message(
    content: object, entries: Sequence[Json], legacy: object, answer: Mapping[str, object]
) -> bytes:
    """An assistant message as it goes back to its provider."""
    message: Json = {"role": "assistant", "content": content}
    if entries:
        message["tool_calls"] = [_with_arguments(entry) for entry in entries]
    if legacy:
        message["function_call"] = legacy
    message |= {key: answer[key] for key in KEPT_FOR_HISTORY if answer.get(key)}
    return dumped(message)


def _with_arguments(entry: Json) -> Json:
    """Providers want the arguments of a call to be JSON, also where they left them out themselves."""
    function = entry.get("function")
    if isinstance(function, dict) and not function.get("arguments"):
        return entry | {"function": function | {"arguments": "{}"}}
    return entry


# --- edits --------------------------------------------------------------------------------------------------


def edit_response(
    body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
) -> bytes:
    """The answer with all changes spliced in. Raises Malformed where they cannot be."""
    made = {call.key: call.id for call in turn.calls if call.made_id and call.key not in refused}
    if not (refused or note or earlier or made):
        return body
    answer = _answer(body)
    before = APART.join(filter(None, (one.text for one in earlier)))
    noted = {choice for choice, _ in refused} or {0}
    splices: list[Splice] = []
    try:
        for number, choice in enumerate(_choices(answer)):
            place = json_text.locate(body, "choices", number)
            if place is None:
                continue
            draft = _ChoiceDraft(body, place, choice)
            draft.take_out({slot for owner, slot in refused if owner == number})
            draft.fill_in({slot: id_ for (owner, slot), id_ in made.items() if owner == number})
            draft.say(before if number == 0 else "", note if number in noted else "")
            splices += draft.splices()
        splices += _usage_splices(body, answer, earlier)
        return json_text.spliced(body, splices)
    except ValueError:
        raise Malformed("the answer cannot be edited") from None


def rewrite_response(body: bytes, said: str) -> bytes:
    """The answer with other visible text in its first choice. Raises Malformed."""
    try:
        place = json_text.locate(body, "choices", 0, "message")
        if place is None:
            raise Malformed("the answer has no message")
        members = json_text.members(body, place.start)
        content = members.values.get("content")
        written = quoted(said)
        if content is not None:
            written = content_with(body, content, said, is_text_part, text_part)
        return json_text.spliced(body, json_text.object_edit(members, put={"content": written}))
    except ValueError:
        raise Malformed("the answer cannot be edited") from None


class _ChoiceDraft:
    """The edits of one choice."""

    def __init__(self, body: bytes, place: json_text.Span, choice: _Choice) -> None:
        self._body = body
        self._choice = choice
        self._fields = json_text.members(body, place.start)
        self._message = (
            json_text.members(body, self._fields.values["message"].start)
            if choice.message
            else Members(place)
        )
        self._drop: set[str] = set()
        self._put: dict[str, bytes] = {}
        self._inner: list[Splice] = []

    def splices(self) -> list[Splice]:
        if self._drop or self._put:
            self._inner += json_text.object_edit(self._message, drop=self._drop, put=self._put)
        return self._inner

    def take_out(self, slots: set[int]) -> None:
        """Takes out the refused calls; with the last one goes the finish word that promises a call."""
        gone = {self._choice.parts[slot].at for slot in slots}
        left = {part.at for part in self._choice.parts} - gone
        if not gone:
            return
        entries = {at for at in gone if at is not None}
        if not left - {None}:
            self._drop.add("tool_calls")
        elif entries:
            array = json_text.elements(self._body, self._message.values["tool_calls"].start)
            self._inner += json_text.array_edit(array, drop=entries)
        if None in gone:
            self._drop.add("function_call")
        if not left and self._choice.finish in CALL_FINISHES:
            place = self._fields.values["finish_reason"]
            self._inner.append(json_text.replaced(place, quoted(ORDINARY_FINISH)))

    def fill_in(self, ids: Mapping[int, str]) -> None:
        """Writes ids into calls that came without. A legacy call has no place for one."""
        for slot, id_ in ids.items():
            at = self._choice.parts[slot].at
            if at is not None:
                array = json_text.elements(self._body, self._message.values["tool_calls"].start)
                members = json_text.members(self._body, array.values[at].start)
                put = {"id": quoted(id_)}
                if self._choice.parts[slot].kind is ToolKind.FUNCTION and "type" not in members.values:
                    put["type"] = quoted("function")
                self._inner += json_text.object_edit(members, put=put)

    def say(self, before: str, after: str) -> None:
        """Puts visible text in front of the content and behind it."""
        if not (before or after):
            return
        content = self._choice.message.get("content")
        place = self._message.values.get("content")
        if place is not None and isinstance(content, list):
            array = json_text.elements(self._body, place.start)
            if before and array.values:
                start = array.values[0].start
                self._inner.append(Splice(start, start, text_part(before + APART) + b","))
                before = ""
            parts = [text_part(part) for part in (before, after) if part]
            self._inner += json_text.array_edit(array, append=parts)
        elif place is not None and content and isinstance(content, str):
            if before:
                self._inner.append(json_text.prepended_text(place, before + APART))
            if after:
                self._inner.append(json_text.appended_text(place, APART + after))
        else:
            said = quoted(APART.join(filter(None, (before, visible_text(content), after))))
            if self._choice.message:
                self._put["content"] = said
            else:
                message = b'{"role":"assistant","content":' + said + b"}"
                self._inner += json_text.object_edit(self._fields, put={"message": message})


def _usage_splices(body: bytes, answer: Json, earlier: Sequence[Turn]) -> list[Splice]:
    known = [turn.usage for turn in earlier if turn.usage is not None]
    record = answer.get("usage")
    place = json_text.locate(body, "usage")
    if not known or place is None or not isinstance(record, dict):
        return []
    return [json_text.replaced(place, dumped(usage_with(record, sum(known, Usage()))))]


# --- answers by program --------------------------------------------------------------------------------------


def render_answer(request: Request, answer_id: str, said: str, usage: Usage, now: int) -> bytes:
    """A whole answer made by program: an ordinary end without a call."""
    return dumped(
        {
            "id": answer_id,
            "object": "chat.completion",
            "created": now,
            "model": request.model,
            "choices": [
                {
                    "index": number,
                    "message": {"role": "assistant", "content": said, "refusal": None},
                    "logprobs": None,
                    "finish_reason": ORDINARY_FINISH,
                }
                for number in range(request.choices)
            ],
            "usage": usage_record(usage),
        }
    )


def render_problem(problem: Problem) -> bytes:
    """The body of an error."""
    return dumped(error_record(problem))
