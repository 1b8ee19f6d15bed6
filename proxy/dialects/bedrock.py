"""The dialect of Amazon Bedrock's Converse API, streamed in Amazon's binary event stream and whole.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from proxy.core.messages import CallKey, Malformed, Problem, Request, RequestEdit, Turn, Usage

from . import Route, RouteKind, bedrock_answer, bedrock_edit, bedrock_request
from .bedrock_parts import error_body
from .bedrock_reader import ConverseReader
from .bedrock_writer import ConverseWriter

_RAW = "it carries a model's own format, in which calls are not judged"
_LATER = "its answers are made later and delivered elsewhere, past this proxy"


class BedrockConverse:
    """The Converse API (see `proxy.dialects.Dialect`)."""

    name = "bedrock-converse"
    provider = "aws.bedrock"
    base_url = "https://bedrock-runtime.us-east-1.amazonaws.com"
    sdk_base_path = ""
    credential_headers: Sequence[str] = ("authorization",)
    credential_parameters: Sequence[str] = ()
    routes: Sequence[Route] = (
        Route("POST", "/model/{model}/converse", encoded_slash=True),
        Route("POST", "/model/{model}/converse-stream", encoded_slash=True),
        Route("POST", "/model/{model}/count-tokens", RouteKind.PASSED, encoded_slash=True),
        Route("GET", "/foundation-models", RouteKind.PASSED),
        Route("GET", "/foundation-models/{model}", RouteKind.PASSED, encoded_slash=True),
        Route("POST", "/model/{model}/invoke", RouteKind.REFUSED, _RAW, encoded_slash=True),
        Route(
            "POST", "/model/{model}/invoke-with-response-stream", RouteKind.REFUSED, _RAW, encoded_slash=True
        ),
        Route(
            "POST",
            "/model/{model}/invoke-with-bidirectional-stream",
            RouteKind.REFUSED,
            _RAW,
            encoded_slash=True,
        ),
        Route("POST", "/async-invoke", RouteKind.REFUSED, _LATER),
        Route("POST", "/model-invocation-job", RouteKind.REFUSED, _LATER),
    )

    def credential(self, key: str) -> Mapping[str, str]:
        """The header that carries this key upstream."""
        return {"authorization": f"Bearer {key}"}

    def parse_request(self, body: bytes, path: str = "") -> Request:
        """Reads a request. Raises Malformed."""
        return bedrock_request.parse_request(body, path, self.name)

    def edit_request(self, body: bytes, edit: RequestEdit) -> bytes:
        """The request with the edit spliced in. Raises Malformed."""
        return bedrock_edit.edit_request(body, edit)

    def parse_response(self, body: bytes, fresh_id: Callable[[], str]) -> Turn:
        """Reads a whole answer. Raises Malformed."""
        return bedrock_answer.parse_response(body, fresh_id)

    def edit_response(
        self, body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
    ) -> bytes:
        """The answer with refused calls taken out, the note and earlier answers put in. Raises Malformed."""
        return bedrock_answer.edit_response(body, turn, refused, note, earlier)

    def rewrite_response(self, body: bytes, text: str) -> bytes:
        """The answer with other visible text. Raises Malformed."""
        return bedrock_answer.rewrite_response(body, text)

    def parse_kept(self, body: bytes) -> Request:
        """Raises Malformed: nothing is kept under an id that could be fetched."""
        del body
        raise Malformed("this provider keeps no answers")

    def reader(self, fresh_id: Callable[[], str]) -> ConverseReader:
        """Reads one streamed answer."""
        return ConverseReader(fresh_id)

    def writer(self, request: Request, answer_id: str) -> ConverseWriter:
        """Writes the agent's stream."""
        del answer_id  # answers of this dialect have no id
        return ConverseWriter(request)

    def render_answer(self, request: Request, answer_id: str, text: str, usage: Usage, now: int) -> bytes:
        """A whole answer made by program."""
        del request, answer_id, now  # the answer names none of them
        return bedrock_answer.render_answer(text, usage)

    def render_problem(self, problem: Problem) -> bytes:
        """The body of an error."""
        return error_body(problem)


BEDROCK_CONVERSE = BedrockConverse()
