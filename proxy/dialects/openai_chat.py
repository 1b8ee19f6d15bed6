"""The dialect of OpenAI's Chat Completions, as spoken by OpenAI and everybody who is compatible.

Source: https://platform.openai.com/docs/api-reference/chat and what compatible servers were seen to send.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from proxy.core.messages import CallKey, Malformed, Problem, Request, RequestEdit, Turn, Usage

from . import Route, openai_chat_answer, openai_chat_edit, openai_chat_request
from .openai_chat_reader import ChatReader
from .openai_chat_routes import ROUTES, deployment_of
from .openai_chat_writer import ChatWriter


class OpenAIChat:
    """Chat Completions (see `proxy.dialects.Dialect`)."""

    name = "openai-chat"
    provider = "openai"
    base_url = "https://api.openai.com/v1"
    sdk_base_path = "/v1"
    credential_headers: Sequence[str] = ("authorization", "api-key")
    credential_parameters: Sequence[str] = ()
    routes: Sequence[Route] = ROUTES

    def credential(self, key: str) -> Mapping[str, str]:
        """The header that carries this key upstream."""
        return {"authorization": f"Bearer {key}"}

    def parse_request(self, body: bytes, path: str = "") -> Request:
        """Reads a request. Raises Malformed."""
        request = openai_chat_request.parse_request(body, self.name)
        deployment = deployment_of(path)
        return replace(request, model=deployment) if deployment else request

    def edit_request(self, body: bytes, edit: RequestEdit) -> bytes:
        """The request with the edit spliced in. Raises Malformed."""
        return openai_chat_edit.edit_request(body, edit)

    def parse_response(self, body: bytes, fresh_id: Callable[[], str]) -> Turn:
        """Reads a whole answer. Raises Malformed."""
        return openai_chat_answer.parse_response(body, fresh_id)

    def edit_response(
        self, body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
    ) -> bytes:
        """The answer with refused calls taken out, the note and earlier answers put in. Raises Malformed."""
        return openai_chat_answer.edit_response(body, turn, refused, note, earlier)

    def rewrite_response(self, body: bytes, text: str) -> bytes:
        """The answer with other visible text in its first choice. Raises Malformed."""
        return openai_chat_answer.rewrite_response(body, text)

    def parse_kept(self, body: bytes) -> Request:
        """Raises Malformed: nothing is kept under an id that could be fetched."""
        del body
        raise Malformed("this provider keeps no answers")

    def reader(self, fresh_id: Callable[[], str]) -> ChatReader:
        """Reads one streamed answer."""
        return ChatReader(fresh_id)

    def writer(self, request: Request, answer_id: str) -> ChatWriter:
        """Writes the agent's stream."""
        return ChatWriter(request, answer_id)

    def render_answer(self, request: Request, answer_id: str, text: str, usage: Usage, now: int) -> bytes:
        """A whole answer made by program."""
        return openai_chat_answer.render_answer(request, answer_id, text, usage, now)

    def render_problem(self, problem: Problem) -> bytes:
        """The body of an error."""
        return openai_chat_answer.render_problem(problem)


OPENAI_CHAT = OpenAIChat()
