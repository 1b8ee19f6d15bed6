"""The dialect of Ollama's own chat API (`POST /api/chat`), streamed line by line and whole.

Source: https://github.com/ollama/ollama/blob/main/docs/api.md and what servers were seen to send.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime

from proxy.core import json_text
from proxy.core.json_text import Span, quoted
from proxy.core.messages import CallKey, Malformed, Problem, Request, RequestEdit, Turn, Usage

from . import Route, RouteKind, ollama_request
from .ollama_parts import (
    APART,
    MESSAGE,
    ORDINARY_FINISH,
    TOP,
    CallIds,
    calls_edit,
    error_body,
    object_at,
    problem_of,
    usage_edit,
    usage_of,
    usage_record,
    wire_calls,
)
from .ollama_stream import OllamaReader, OllamaWriter, message_for_history
from .values import dumped, loaded, text

_CHANGES = "it changes what the server has"
_RAW = "it completes raw text, in which calls cannot be told from text"


class Ollama:
    """Ollama's chat API (see `proxy.dialects.Dialect`)."""

    name = "ollama"
    provider = "ollama"
    base_url = "http://127.0.0.1:11434"
    sdk_base_path = ""
    credential_headers: Sequence[str] = ("authorization",)
    credential_parameters: Sequence[str] = ()
    routes: Sequence[Route] = (
        Route("POST", "/api/chat"),
        Route("GET", "/api/tags", RouteKind.PASSED),
        Route("GET", "/api/version", RouteKind.PASSED),
        Route("GET", "/api/ps", RouteKind.PASSED),
        Route("POST", "/api/show", RouteKind.PASSED),
        Route("POST", "/api/embed", RouteKind.PASSED),
        Route("POST", "/api/embeddings", RouteKind.PASSED),
        Route("POST", "/api/generate", RouteKind.REFUSED, _RAW),
        Route("POST", "/api/pull", RouteKind.REFUSED, _CHANGES),
        Route("POST", "/api/push", RouteKind.REFUSED, _CHANGES),
        Route("POST", "/api/create", RouteKind.REFUSED, _CHANGES),
        Route("POST", "/api/copy", RouteKind.REFUSED, _CHANGES),
        Route("DELETE", "/api/delete", RouteKind.REFUSED, _CHANGES),
        Route("POST", "/api/blobs/{digest}", RouteKind.REFUSED, _CHANGES),
    )

    def credential(self, key: str) -> Mapping[str, str]:
        """The header that carries this key upstream."""
        return {"authorization": f"Bearer {key}"}

    def parse_request(self, body: bytes, path: str = "") -> Request:
        """Reads a request. Raises Malformed."""
        del path  # this dialect says everything in the body
        return ollama_request.parse_request(body, self.name)

    def edit_request(self, body: bytes, edit: RequestEdit) -> bytes:
        """The request with the edit spliced in. Raises Malformed."""
        return ollama_request.edit_request(body, edit)

    def parse_response(self, body: bytes, fresh_id: Callable[[], str]) -> Turn:
        """Reads a whole answer. Raises Malformed."""
        del fresh_id  # calls are named by what they say
        try:
            answer = loaded(body)
        except ValueError:
            raise Malformed("the answer is not valid JSON") from None
        if not isinstance(answer, dict):
            raise Malformed("the answer is no object")
        top = object_at(body, Span(0, len(body)), TOP, "the answer")
        if answer.get("error"):
            if "message" in answer:
                raise Malformed("the answer is an error and an answer")
            return Turn(error=problem_of(answer["error"]))
        if "message" not in top.values:
            raise Malformed("the answer holds no message")
        message = object_at(body, top.values["message"], MESSAGE, "the message")
        found = wire_calls(body, message)
        ids = CallIds()
        place = message.values.get("tool_calls")
        entries = json_text.elements(body, place.start).values if found and place else ()
        record = answer["message"]
        finish = text(answer.get("done_reason")) or (ORDINARY_FINISH if answer.get("done") is True else "")
        said = text(record.get("content"))
        return Turn(
            model=text(answer.get("model")),
            text=said,
            calls=tuple(ids.call(call, (0, slot)) for slot, call in enumerate(found)),
            finish=(finish,) if finish else (),
            usage=usage_of(answer),
            message=message_for_history(
                said, text(record.get("thinking")), [entry.cut(body) for entry in entries]
            ),
        )

    def edit_response(
        self, body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
    ) -> bytes:
        """The answer with refused calls taken out, the note and earlier answers put in. Raises Malformed."""
        if not (refused or note or earlier):
            return body
        try:
            top = json_text.members(body)
            message = json_text.members(body, top.values["message"].start)
            gone = frozenset(slot for _, slot in refused)
            known = [one.usage for one in earlier if one.usage is not None]
            splices = usage_edit(body, top, sum(known, Usage()) if known else None)
            said = APART.join(filter(None, (*(one.text for one in earlier), turn.text, note)))
            drop = {"tool_calls"} if gone and len(gone) == len(turn.calls) else set()
            if not drop:
                splices += calls_edit(body, message, gone, 0 if gone else None)
            put = {"content": quoted(said)} if said != turn.text else {}
            splices += json_text.object_edit(message, drop=drop, put=put)
            return json_text.spliced(body, splices)
        except (ValueError, LookupError):
            raise Malformed("the answer cannot be edited") from None

    def rewrite_response(self, body: bytes, said: str) -> bytes:
        """The answer with other visible text. Raises Malformed."""
        try:
            message = json_text.members(body, json_text.members(body).values["message"].start)
            return json_text.spliced(body, json_text.object_edit(message, put={"content": quoted(said)}))
        except (ValueError, LookupError):
            raise Malformed("the answer cannot be edited") from None

    def parse_kept(self, body: bytes) -> Request:
        """Raises Malformed: nothing is kept under an id that could be fetched."""
        del body
        raise Malformed("this provider keeps no answers")

    def reader(self, fresh_id: Callable[[], str]) -> OllamaReader:
        """Reads one streamed answer."""
        del fresh_id  # calls are named by what they say
        return OllamaReader()

    def writer(self, request: Request, answer_id: str) -> OllamaWriter:
        """Writes the agent's stream."""
        del answer_id  # answers of this dialect have no id
        return OllamaWriter(request)

    def render_answer(self, request: Request, answer_id: str, said: str, usage: Usage, now: int) -> bytes:
        """A whole answer made by program."""
        del answer_id  # as above
        return dumped(
            {
                "model": request.model,
                "created_at": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "message": {"role": "assistant", "content": said},
                "done_reason": ORDINARY_FINISH,
                "done": True,
                **usage_record(usage),
            }
        )

    def render_problem(self, problem: Problem) -> bytes:
        """The body of an error."""
        return error_body(problem)


OLLAMA = Ollama()
