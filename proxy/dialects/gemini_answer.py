"""A whole answer of Gemini's API: read, edited, and made by program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from proxy.core import json_text
from proxy.core.json_text import Span, Splice, quoted
from proxy.core.messages import CallKey, Malformed, Problem, Request, ToolCall, Turn, Usage

from .gemini_parts import (
    APART,
    MAY_CALL,
    OPAQUE,
    ORDINARY_FINISH,
    CallNames,
    Json,
    arguments_at,
    error_record,
    finish_of,
    holds_call,
    hosted_call,
    is_call,
    is_visible,
    member,
    object_member,
    promises_calls,
    said_in,
    snake,
    spelled_in,
    usage_of,
    usage_with,
)
from .gemini_request import parts_of
from .values import dumped, loaded, text

_BRACE = 123
_MOST_CANDIDATES = 64


def answer_in(body: bytes) -> Json:
    """The object of an answer. Raises Malformed."""
    try:
        answer = loaded(body)
    except ValueError:
        raise Malformed("the answer is not valid JSON") from None
    if not isinstance(answer, dict) or not (answer.keys() & {"candidates", "promptFeedback", "error"}):
        raise Malformed("the answer holds no candidates")
    refuse_ambiguity(body, answer)
    refuse_misplaced(body, answer)
    return answer


def refuse_ambiguity(body: bytes, answer: Json) -> None:
    """Raises Malformed where a key occurs twice: clients would differ about what is said. In the arguments of a call it
    is left to the judge of the call."""
    try:
        json_text.refuse_double_keys(body)
    except ValueError:
        try:
            cut = [json_text.replaced(span, b"{}") for span in _whole_arguments(body, answer)]
            json_text.refuse_double_keys(json_text.spliced(body, cut))
        except ValueError:
            raise Malformed("a key occurs twice in the answer") from None


def _whole_arguments(body: bytes, answer: Json) -> Iterator[Span]:
    """Where the arguments of calls stand that come whole."""
    for candidate, places in zip(candidates_of(answer), part_places(body), strict=True):
        for part, place in zip(read_parts(candidate), places, strict=True):
            said = object_member(part, "functionCall")
            if said.get("args") and not {snake(key) for key in said} & {"partial_args", "will_continue"}:
                span = json_text.locate(body, spelled_in(part, "functionCall"), "args", at=place.start)
                yield from [span] if span is not None else []


def refuse_misplaced(body: bytes, answer: Json) -> None:
    """Raises Malformed where a call stands anywhere but in the parts of a candidate, or where candidates cannot be told
    apart: some client may run what nobody has judged."""
    candidates = candidates_of(answer)
    numbers = [candidate_number(candidate, at) for at, candidate in enumerate(candidates)]
    if len(set(numbers)) < len(numbers):
        raise Malformed("two candidates have one index")
    if not MAY_CALL.search(body):
        return
    waiting: list[object] = [{key: value for key, value in answer.items() if key != "candidates"}]
    for candidate in candidates:
        waiting.append({key: value for key, value in candidate.items() if key != "content"})
        content = candidate.get("content")
        waiting.append(
            {k: v for k, v in content.items() if k != "parts"} if isinstance(content, dict) else {}
        )
        for part in read_parts(candidate):
            is_call(part)
            waiting += [value for key, value in part.items() if snake(key) not in OPAQUE]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if holds_call(one):
                raise Malformed("a call stands outside the parts of a candidate")
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def candidates_of(answer: Mapping[str, object]) -> list[Json]:
    """The candidates. Raises Malformed where they are no list of objects."""
    given = answer.get("candidates")
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Malformed("candidates has to be a list of objects")
    if len(given) > _MOST_CANDIDATES:
        raise Malformed("there are more candidates than any API gives")
    return given


def candidate_number(candidate: Mapping[str, object], place: int) -> int:
    """Which choice it is."""
    index = candidate.get("index")
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < _MOST_CANDIDATES:
        return place
    return index


def read_parts(candidate: Json) -> list[Json]:
    """The parts of a candidate. Raises Malformed where they are no list of objects in an object."""
    content = candidate.get("content")
    if content is None:
        return []
    if not isinstance(content, dict) or not isinstance(content.get("parts"), list | None):
        raise Malformed("a content has to be an object with a list of parts")
    return parts_of(content)


def part_places(body: bytes) -> list[tuple[Span, ...]]:
    """Where the parts of each candidate stand: looked for once, so that time is linear in the answer."""
    candidates = json_text.locate(body, "candidates")
    if candidates is None or body[candidates.start : candidates.start + 1] != b"[":
        return []
    found: list[tuple[Span, ...]] = []
    for candidate in json_text.elements(body, candidates.start).values:
        parts = json_text.locate(body, "content", "parts", at=candidate.start)
        is_list = parts is not None and body[parts.start : parts.start + 1] == b"["
        found.append(json_text.elements(body, parts.start).values if parts is not None and is_list else ())
    return found


def calls_in(body: bytes, answer: Json) -> dict[CallKey, tuple[ToolCall, tuple[int, int]]]:
    """The calls of an answer with their places. Raises Malformed."""
    found: dict[CallKey, tuple[ToolCall, tuple[int, int]]] = {}
    places = part_places(body)
    for at, candidate in enumerate(candidates_of(answer)):
        names, number = CallNames(), candidate_number(candidate, at)
        slot = 0
        for place, part in enumerate(read_parts(candidate)):
            if is_call(part):
                key = (number, slot)
                call = call_at(body, part, places[at][place], names, key)
                found[key] = (call, (at, place))
                slot += 1
    return found


def call_at(body: bytes, part: Json, place: Span, names: CallNames, key: CallKey) -> ToolCall:
    """The call in a part that stands at this place."""
    spelled = spelled_in(part, "functionCall")
    said = object_member(part, "functionCall")
    arguments = arguments_at(body, spelled, "args", at=place.start)
    return names.call(text(said.get("id")), text(said.get("name")), arguments, key)


def parse_response(body: bytes, fresh_id: Callable[[], str]) -> Turn:
    """The answer. Raises Malformed where it is none."""
    del fresh_id  # calls are named by what they say
    answer = answer_in(body)
    candidates = candidates_of(answer)
    calls = calls_in(body, answer)
    first = candidates[0] if candidates else {}
    parts = read_parts(first)
    hosted = (hosted_call(part, at) for one in candidates for at, part in enumerate(read_parts(one)))
    place = json_text.locate(body, "candidates", 0, "content") if candidates else None
    finish = tuple(filter(None, map(finish_of, candidates)))
    if not candidates and not answer.get("error"):
        finish = ("BLOCKED",)
    return Turn(
        id=text(answer.get("responseId")),
        model=text(answer.get("modelVersion")),
        text=said_in(parts),
        calls=tuple(call for call, _ in calls.values()),
        hosted_calls=tuple(call for call in hosted if call is not None),
        finish=finish,
        usage=usage_of(answer.get("usageMetadata")),
        message=_content(place.cut(body)) if place is not None and body[place.start] == _BRACE else b"",
    )


def _content(cut: bytes) -> bytes:
    """A model's content as it goes back; some leave out whose it is."""
    members = json_text.members(cut)
    return json_text.spliced(cut, json_text.object_edit(members, put={"role": b'"model"'}))


def edit_response(
    body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
) -> bytes:
    """The answer with all changes spliced in. Raises Malformed where they cannot be."""
    del turn
    if not (refused or note or earlier):
        return body
    answer = answer_in(body)
    calls = calls_in(body, answer)
    before = APART.join(one.text for one in earlier if one.text)
    splices: list[Splice] = []
    noted = {key[0] for key in refused} or {0}
    try:
        for at, candidate in enumerate(candidates_of(answer)):
            number = candidate_number(candidate, at)
            gone = {place for key, (_, (owner, place)) in calls.items() if key in refused and owner == at}
            kept = [place for key, (_, (owner, place)) in calls.items() if key not in refused and owner == at]
            said = note if number in noted else ""
            front = before if at == 0 else ""
            splices += _edited(body, at, candidate, gone, kept, said, front)
        used = [one.usage for one in earlier if one.usage is not None]
        place = json_text.locate(body, "usageMetadata")
        if used and place is not None:
            total = usage_with(answer.get("usageMetadata"), sum(used, Usage()))
            splices.append(json_text.replaced(place, dumped(total)))
        return json_text.spliced(body, splices)
    except ValueError:
        raise Malformed("the answer cannot be edited") from None


def _edited(  # noqa: PLR0913, PLR0917 - the facts of one candidate
    body: bytes, at: int, candidate: Json, gone: set[int], kept: list[int], note: str, front: str
) -> list[Splice]:
    if not (gone or note or front):
        return []
    place = json_text.locate(body, "candidates", at, "content", "parts")
    if place is None or body[place.start : place.start + 1] != b"[":
        members = json_text.members(body, _need(json_text.locate(body, "candidates", at)).start)
        said = APART.join(filter(None, (front, note)))
        content = b'{"role":"model","parts":[' + text_part(said) + b"]}"
        return json_text.object_edit(members, put={"content": content})
    spans = json_text.elements(body, place.start).values
    parts = read_parts(candidate)
    signature = _signature_of(parts, gone, kept)
    has_text = any(map(is_visible, parts))
    written: list[bytes] = []
    if front:
        written.append(text_part(front + (APART if note or has_text else "")))
    for number, span in enumerate(spans):
        if note and number == (kept[0] if kept else -1):
            written.append(text_part((APART if has_text else "") + note))
            note = ""
        if number not in gone:
            cut = span.cut(body)
            written.append(_signed(cut, signature) if kept and number == kept[0] else cut)
    if note:
        written.append(text_part((APART if has_text else "") + note))
    splices = [json_text.replaced(place, b"[" + b",".join(written) + b"]")]
    finish = json_text.locate(body, "candidates", at, "finishReason")
    if gone and not kept and finish is not None and promises_calls(finish_of(candidate)):
        splices.append(json_text.replaced(finish, quoted(ORDINARY_FINISH)))
    return splices


def _need(span: Span | None) -> Span:
    if span is None:
        raise Malformed("the answer cannot be edited")
    return span


def _signature_of(parts: Sequence[Json], gone: Collection[int], kept: Sequence[int]) -> bytes:
    """The signature of a call that goes, where the first call that stays has none: the API wants the first call of a step
    to be signed (https://ai.google.dev/gemini-api/docs/thought-signatures)."""
    if not kept or member(parts[kept[0]], "thoughtSignature") is not None:
        return b""
    signed = (member(parts[place], "thoughtSignature") for place in sorted(gone) if place < kept[0])
    return next((quoted(one) for one in signed if isinstance(one, str)), b"")


def _signed(part: bytes, signature: bytes) -> bytes:
    if not signature:
        return part
    return json_text.spliced(
        part, json_text.object_edit(json_text.members(part), put={"thoughtSignature": signature})
    )


def text_part(said: str) -> bytes:
    """A part with this text."""
    return b'{"text":' + quoted(said) + b"}"


def rewrite_response(body: bytes, said: str) -> bytes:
    """The answer with other visible text in its first candidate. Raises Malformed."""
    candidates = candidates_of(answer_in(body))
    if not candidates:
        raise Malformed("the answer has no candidate")
    place = json_text.locate(body, "candidates", 0, "content", "parts")
    if place is None:
        return json_text.spliced(body, _edited(body, 0, candidates[0], set(), [], said, ""))
    written: list[bytes] = []
    waiting = [text_part(said)] if said else []
    parts = read_parts(candidates[0])
    for part, span in zip(parts, json_text.elements(body, place.start).values, strict=True):
        if not is_visible(part):
            written.append(span.cut(body))
        elif waiting:
            written.append(waiting.pop())
    return json_text.spliced(body, [json_text.replaced(place, b"[" + b",".join([*waiting, *written]) + b"]")])


# --- made by program -------------------------------------------------------------------------------------------------


def answer_record(request: Request, answer_id: str, said: str, usage: Usage | None, *, ends: bool) -> Json:
    """An answer, or a piece of one, of the proxy's own."""
    candidate: Json = {"content": {"role": "model", "parts": [{"text": said}] if said else []}, "index": 0}
    if ends:
        candidate["finishReason"] = ORDINARY_FINISH
    record: Json = {"candidates": [candidate]}
    if usage is not None:
        record["usageMetadata"] = usage_with({}, usage)
    return {**record, "modelVersion": request.model, "responseId": answer_id}


def render_answer(request: Request, answer_id: str, said: str, usage: Usage) -> bytes:
    """A whole answer made by program."""
    return dumped(answer_record(request, answer_id, said, usage, ends=True))


def render_problem(problem: Problem) -> bytes:
    """The body of an error."""
    return dumped(error_record(problem))
