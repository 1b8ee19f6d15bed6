"""The dialect of Gemini's generateContent, at the Developer API and at Vertex AI.

Source: https://ai.google.dev/api/generate-content and what its servers were seen to send.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from proxy.core.messages import CallKey, Malformed, Problem, Request, RequestEdit, Turn, Usage

from . import Route, RouteKind, gemini_answer, gemini_edit, gemini_request, routes_of
from .gemini_reader import GeminiReader
from .gemini_writer import GeminiWriter

_BASES = (
    "/v1beta/models/{model}",
    "/v1/models/{model}",
    "/v1/projects/{project}/locations/{location}/publishers/google/models/{model}",
    "/v1beta1/projects/{project}/locations/{location}/publishers/google/models/{model}",
    "/v1/publishers/google/models/{model}",
    "/v1beta1/publishers/google/models/{model}",
)
_AT_VERTEX = (
    "/v1/projects/{project}/locations/{location}",
    "/v1beta1/projects/{project}/locations/{location}",
)
_ROOTS = ("/v1beta", "/v1", *_AT_VERTEX)
_LIVE = (
    "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent",
    "/ws/google.cloud.aiplatform.{version}.LlmBidiService/BidiGenerateContent",
)


class Gemini:
    """generateContent and streamGenerateContent (see `proxy.dialects.Dialect`)."""

    name = "gemini"
    provider = "gcp.gemini"
    base_url = "https://generativelanguage.googleapis.com"
    sdk_base_path = ""
    credential_headers: Sequence[str] = ("x-goog-api-key", "authorization")
    credential_parameters: Sequence[str] = ("key", "access_token", "oauth_token")
    routes: Sequence[Route] = (
        *(
            Route("POST", f"{base}:{verb}")
            for base in _BASES
            for verb in ("generateContent", "streamGenerateContent")
        ),
        *(
            Route("POST", f"{base}:{verb}", RouteKind.PASSED)
            for base in _BASES
            for verb in ("countTokens", "embedContent", "batchEmbedContents")
        ),
        *routes_of(
            RouteKind.PASSED,
            "GET /v1beta/models",
            "GET /v1beta/models/{model}",
            "GET /v1/models",
            "GET /v1/models/{model}",
        ),
        *routes_of(
            RouteKind.REFUSED,
            *(f"POST {base}/models/{{model}}:batchGenerateContent" for base in ("/v1beta", "/v1")),
            *(f"POST {base}/batchPredictionJobs" for base in _AT_VERTEX),
            reason="answers of a batch are not seen",
        ),
        *routes_of(
            RouteKind.REFUSED,
            *(f"POST {base}/cachedContents" for base in _ROOTS),
            reason="tools kept under a name are not seen when they are used",
        ),
        *routes_of(
            RouteKind.REFUSED,
            *(f"POST {base}/interactions" for base in _ROOTS),
            reason="its calls are not read",
        ),
        *routes_of(
            RouteKind.REFUSED,
            *(f"GET {path}" for path in _LIVE),
            reason="calls in a live session are not read",
        ),
    )

    def credential(self, key: str) -> Mapping[str, str]:
        """The header that carries this key upstream."""
        return {"x-goog-api-key": key}

    def parse_request(self, body: bytes, path: str = "") -> Request:
        """Reads a request; model and stream stand in the path. Raises Malformed."""
        return gemini_request.parse_request(body, path, self.name)

    def edit_request(self, body: bytes, edit: RequestEdit) -> bytes:
        """The request with the edit spliced in. Raises Malformed."""
        return gemini_edit.edit_request(body, edit)

    def parse_response(self, body: bytes, fresh_id: Callable[[], str]) -> Turn:
        """Reads a whole answer. Raises Malformed."""
        return gemini_answer.parse_response(body, fresh_id)

    def edit_response(
        self, body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
    ) -> bytes:
        """The answer with refused calls taken out, the note and earlier answers put in. Raises Malformed."""
        return gemini_answer.edit_response(body, turn, refused, note, earlier)

    def rewrite_response(self, body: bytes, text: str) -> bytes:
        """The answer with other visible text. Raises Malformed."""
        return gemini_answer.rewrite_response(body, text)

    def parse_kept(self, body: bytes) -> Request:
        """Raises Malformed: nothing is kept under an id that could be fetched."""
        del body
        raise Malformed("this provider keeps no answers")

    def reader(self, fresh_id: Callable[[], str]) -> GeminiReader:
        """Reads one streamed answer; calls are named by what they say."""
        del fresh_id
        return GeminiReader()

    def writer(self, request: Request, answer_id: str) -> GeminiWriter:
        """Writes the agent's stream."""
        return GeminiWriter(request, answer_id)

    def render_answer(self, request: Request, answer_id: str, text: str, usage: Usage, now: int) -> bytes:
        """A whole answer made by program."""
        del now  # this dialect tells no time
        return gemini_answer.render_answer(request, answer_id, text, usage)

    def render_problem(self, problem: Problem) -> bytes:
        """The body of an error."""
        return gemini_answer.render_problem(problem)


GEMINI = Gemini()
