"""The dialect of OpenAI's Responses API, as spoken by OpenAI and everybody who is compatible.

Source: https://platform.openai.com/docs/api-reference/responses and what compatible servers were seen to send.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from proxy.core.messages import CallKey, Problem, Request, RequestEdit, Turn, Usage

from . import Route, RouteKind, openai_responses_answer, openai_responses_edit, openai_responses_request
from .openai_responses_reader import ResponsesReader
from .openai_responses_writer import ResponsesWriter


class OpenAIResponses:
    """Responses (see `proxy.dialects.Dialect`)."""

    name = "openai-responses"
    provider = "openai"
    base_url = "https://api.openai.com/v1"
    sdk_base_path = "/v1"
    credential_headers: Sequence[str] = ("authorization", "api-key")
    credential_parameters: Sequence[str] = ()
    routes: Sequence[Route] = (
        Route("POST", "/v1/responses"),
        Route("POST", "/responses"),
        Route("POST", "/openai/v1/responses"),
        Route("POST", "/openai/responses"),
        Route("POST", "/api/v1/responses"),
        Route("GET", "/v1/responses/{answer}", RouteKind.KEPT, unstreamed="stream"),
        Route("POST", "/v1/responses/{answer}/cancel", RouteKind.KEPT),
        Route("DELETE", "/v1/responses/{answer}", RouteKind.KEPT, judged=False),
        Route("GET", "/v1/responses/{answer}/input_items", RouteKind.KEPT, judged=False),
        Route("POST", "/v1/responses/input_tokens", RouteKind.PASSED),
        Route("POST", "/v1/responses/compact", RouteKind.PASSED),
        Route(
            "POST",
            "/v1/conversations",
            RouteKind.KEPT,
            judged=False,
            made_id=openai_responses_answer.conversation_id,
        ),
        Route("POST", "/v1/conversations/{answer}/items", RouteKind.KEPT, judged=False),
        Route("GET", "/v1/conversations/{answer}", RouteKind.KEPT, judged=False),
        Route("POST", "/v1/conversations/{answer}", RouteKind.KEPT, judged=False),
        Route("DELETE", "/v1/conversations/{answer}", RouteKind.KEPT, judged=False),
        Route("GET", "/v1/conversations/{answer}/items", RouteKind.KEPT, judged=False),
        Route("GET", "/v1/conversations/{answer}/items/{item}", RouteKind.KEPT, judged=False),
        Route("DELETE", "/v1/conversations/{answer}/items/{item}", RouteKind.KEPT, judged=False),
    )

    def credential(self, key: str) -> Mapping[str, str]:
        """The header that carries this key upstream."""
        return {"authorization": f"Bearer {key}"}

    def parse_request(self, body: bytes, path: str = "") -> Request:
        """Reads a request. Raises Malformed."""
        del path  # this dialect says everything in the body
        return openai_responses_request.parse_request(body, self.name)

    def edit_request(self, body: bytes, edit: RequestEdit) -> bytes:
        """The request with the edit spliced in. Raises Malformed."""
        return openai_responses_edit.edit_request(body, edit)

    def parse_response(self, body: bytes, fresh_id: Callable[[], str]) -> Turn:
        """Reads a whole answer. Raises Malformed."""
        return openai_responses_answer.parse_response(body, fresh_id)

    def edit_response(
        self, body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
    ) -> bytes:
        """The answer with refused calls taken out, the note and earlier answers put in. Raises Malformed."""
        return openai_responses_answer.edit_response(body, turn, refused, note, earlier)

    def rewrite_response(self, body: bytes, text: str) -> bytes:
        """The answer with other visible text. Raises Malformed."""
        return openai_responses_answer.rewrite_response(body, text)

    def parse_kept(self, body: bytes) -> Request:
        """The request that a kept answer shows: it names model, tools and tool choice. Raises Malformed."""
        read = openai_responses_answer.answer_in(body)
        shown = {key: read[key] for key in ("model", "tools", "tool_choice") if read.get(key) is not None}
        return openai_responses_request.request_of({**shown, "input": ""}, self.name, b"")

    def reader(self, fresh_id: Callable[[], str]) -> ResponsesReader:
        """Reads one streamed answer."""
        return ResponsesReader(fresh_id)

    def writer(self, request: Request, answer_id: str) -> ResponsesWriter:
        """Writes the agent's stream."""
        return ResponsesWriter(request, answer_id)

    def render_answer(self, request: Request, answer_id: str, text: str, usage: Usage, now: int) -> bytes:
        """A whole answer made by program."""
        return openai_responses_answer.render_answer(request, answer_id, text, usage, now)

    def render_problem(self, problem: Problem) -> bytes:
        """The body of an error."""
        return openai_responses_answer.render_problem(problem)


OPENAI_RESPONSES = OpenAIResponses()
