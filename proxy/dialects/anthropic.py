"""Anthropic's Messages API (`POST /v1/messages`), streamed and whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import orjson

from proxy.core import json_text
from proxy.core.messages import (
    CallKey,
    Malformed,
    Problem,
    Request,
    RequestEdit,
    ToolCall,
    ToolKind,
    Turn,
    Usage,
)

from . import Route, RouteKind, anthropic_answer, anthropic_edits as edits, routes_of
from .anthropic_blocks import (
    ORDINARY_FINISH,
    Json,
    call_name,
    compact,
    counts_from,
    counts_of,
    is_call,
    is_hosted_call,
    joined_text,
    object_of,
    problem_of,
    text_of,
    usage_of,
)
from .anthropic_programs import container_id, with_container
from .anthropic_reader import AnthropicReader
from .anthropic_request import parse_request, parsed
from .anthropic_wire import assistant_message, call_block, exact_input, is_ambiguous
from .anthropic_writer import AnthropicWriter, problem_record


class AnthropicMessages:
    """The dialect. See the protocol `Dialect` for what each member promises."""

    name = "anthropic-messages"
    provider = "anthropic"
    routes: Sequence[Route] = (
        *routes_of(RouteKind.GUARDED, "POST /v1/messages"),
        *routes_of(
            RouteKind.PASSED,
            "POST /v1/messages/count_tokens",
            "GET /v1/models",
            "GET /v1/models/{model}",
        ),
        *routes_of(
            RouteKind.REFUSED,
            "POST /v1/messages/batches",
            "GET /v1/messages/batches",
            "GET /v1/messages/batches/{batch}",
            "DELETE /v1/messages/batches/{batch}",
            "POST /v1/messages/batches/{batch}/cancel",
            "GET /v1/messages/batches/{batch}/results",
            reason="the requests of a batch and their answers would not be judged",
        ),
        *routes_of(
            RouteKind.REFUSED,
            "POST /v1/complete",
            reason="its answers are plain text, which nobody searches for calls here",
        ),
        *routes_of(
            RouteKind.REFUSED,
            "POST /v1/files",
            "GET /v1/files",
            "GET /v1/files/{file}",
            "DELETE /v1/files/{file}",
            "GET /v1/files/{file}/content",
            reason="what a file tells the model or gets from it would not be read",
        ),
    )
    base_url = "https://api.anthropic.com"
    sdk_base_path = ""
    credential_headers: Sequence[str] = ("x-api-key", "authorization")
    credential_parameters: Sequence[str] = ()

    def credential(self, key: str) -> Mapping[str, str]:
        """The header that carries this key upstream."""
        return {"x-api-key": key}

    def parse_request(self, body: bytes, path: str = "") -> Request:
        """Reads a request. Raises Malformed."""
        del path  # this dialect says everything in the body
        return parse_request(self.name, body)

    def edit_request(self, body: bytes, edit: RequestEdit) -> bytes:
        """The request with the edit spliced in."""
        return edits.edit_request(body, edit)

    def parse_response(self, body: bytes, fresh_id: Callable[[], str]) -> Turn:
        """Reads a whole answer. Raises Malformed."""
        read = parsed(body, "answer")
        if read.get("type") == "error" and not read.get("content"):
            return Turn(error=problem_of(read.get("error")))
        content = read.get("content")
        if not isinstance(content, list):
            raise Malformed("The answer has no content: it is no message.")
        try:
            spans = json_text.elements(body, json_text.members(body).values["content"].start).values
        except ValueError:
            raise Malformed("A key occurs twice in the answer.") from None
        pieces = [(span.cut(body), object_of(block)) for span, block in zip(spans, content, strict=True)]
        calls: list[ToolCall] = []
        written: list[bytes] = []
        for text, block in pieces:
            if is_call(block):
                calls.append(_call(len(calls), text, block, fresh_id))
                written.append(call_block(block, calls[-1].id, calls[-1].arguments))
            elif is_ambiguous(text):
                raise Malformed("A key occurs twice in a block of the answer.")
            elif block.get("type") != "text" or block.get("text"):
                written.append(text)
        finish = text_of(read.get("stop_reason"))
        counts = counts_of(read.get("usage"))
        return Turn(
            id=text_of(read.get("id")),
            model=text_of(read.get("model")),
            text=joined_text(content, ""),
            calls=tuple(calls),
            hosted_calls=tuple(_hosted(text, block) for text, block in pieces if is_hosted_call(block)),
            finish=(finish,) if finish else (),
            usage=usage_of(counts) if counts else None,
            message=with_container(assistant_message(written), container_id(read)),
        )

    def edit_response(
        self, body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
    ) -> bytes:
        """The answer with refused calls taken out, and the note and earlier answers put in."""
        return anthropic_answer.edit_response(body, turn, refused, note, earlier)

    def rewrite_response(self, body: bytes, text: str) -> bytes:
        """The answer with other visible text. Raises Malformed."""
        return anthropic_answer.rewrite_response(body, text)

    def parse_kept(self, body: bytes) -> Request:
        """Raises Malformed: nothing is kept under an id that could be fetched."""
        del body
        raise Malformed("this provider keeps no answers")

    def reader(self, fresh_id: Callable[[], str]) -> AnthropicReader:
        """Reads one streamed answer."""
        return AnthropicReader(fresh_id)

    def writer(self, request: Request, answer_id: str) -> AnthropicWriter:
        """Writes the agent's stream."""
        return AnthropicWriter(request, answer_id)

    def render_answer(self, request: Request, answer_id: str, text: str, usage: Usage, now: int) -> bytes:
        """A whole answer made by program."""
        del now  # this dialect tells no time
        message = {
            "id": answer_id,
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [{"type": "text", "text": text}] if text else [],
            "stop_reason": ORDINARY_FINISH,
            "stop_sequence": None,
            "usage": counts_from(usage),
        }
        return orjson.dumps(message)

    def render_problem(self, problem: Problem) -> bytes:
        """The body of an error."""
        return compact(problem_record(problem)).encode()


def _call(slot: int, text: bytes, block: Json, fresh_id: Callable[[], str]) -> ToolCall:
    call_id = text_of(block.get("id"))
    made = not call_id
    return ToolCall(
        call_id or fresh_id(), call_name(block), exact_input(text, block), (0, slot), made_id=made
    )


def _hosted(text: bytes, block: Json) -> ToolCall:
    name = text_of(block.get("name"))
    return ToolCall(text_of(block.get("id")), name, exact_input(text, block), (0, -1), ToolKind.HOSTED)


ANTHROPIC = AnthropicMessages()
