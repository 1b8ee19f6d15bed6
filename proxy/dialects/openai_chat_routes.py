"""The paths of Chat Completions: OpenAI's own, and what compatible providers put in front of them.

Sources: https://platform.openai.com/docs/api-reference; Azure OpenAI, Gemini's OpenAI compatibility and OpenRouter as
their SDKs request them. A provider that puts something else in front has it in its base URL, and the agent leaves it
out: `/chat/completions` fits below any.
"""

from __future__ import annotations

from urllib.parse import unquote

from . import Route, RouteKind, routes_of

_DEPLOYMENT = "/openai/deployments/{deployment}"

ROUTES: tuple[Route, ...] = (
    *routes_of(
        RouteKind.GUARDED,
        "POST /v1/chat/completions",
        "POST /chat/completions",
        "POST /openai/v1/chat/completions",
        f"POST {_DEPLOYMENT}/chat/completions",
        "POST /models/chat/completions",
        "POST /v1beta/openai/chat/completions",
        "POST /api/v1/chat/completions",
    ),
    *routes_of(
        RouteKind.PASSED,
        "GET /v1/models",
        "GET /v1/models/{model}",
        "GET /models",
        "GET /openai/v1/models",
        "GET /v1beta/openai/models",
        "GET /api/v1/models",
        "POST /v1/embeddings",
        "POST /embeddings",
        "POST /openai/v1/embeddings",
        f"POST {_DEPLOYMENT}/embeddings",
        "POST /v1beta/openai/embeddings",
        "POST /api/v1/embeddings",
        "POST /v1/moderations",
        "POST /v1/audio/speech",
        "POST /v1/audio/transcriptions",
        "POST /v1/audio/translations",
        "POST /v1/images/generations",
        "POST /v1/images/edits",
    ),
    *routes_of(
        RouteKind.REFUSED,
        "POST /v1/completions",
        "POST /completions",
        f"POST {_DEPLOYMENT}/completions",
        reason="its answers are plain text, which nobody searches for calls here",
    ),
    *routes_of(
        RouteKind.REFUSED,
        "POST /v1/batches",
        "GET /v1/batches",
        "GET /v1/batches/{batch}",
        "POST /v1/batches/{batch}/cancel",
        reason="the requests of a batch and their answers would not be judged",
    ),
    *routes_of(
        RouteKind.REFUSED,
        "POST /v1/files",
        "GET /v1/files",
        "GET /v1/files/{file}",
        "DELETE /v1/files/{file}",
        "GET /v1/files/{file}/content",
        reason="files carry the requests and answers of batches",
    ),
    *routes_of(
        RouteKind.REFUSED,
        "POST /v1/assistants",
        "GET /v1/assistants",
        "GET /v1/assistants/{assistant}",
        "POST /v1/assistants/{assistant}",
        "DELETE /v1/assistants/{assistant}",
        "POST /v1/threads",
        "POST /v1/threads/runs",
        "GET /v1/threads/{thread}",
        "POST /v1/threads/{thread}",
        "DELETE /v1/threads/{thread}",
        "GET /v1/threads/{thread}/messages",
        "POST /v1/threads/{thread}/messages",
        "GET /v1/threads/{thread}/runs",
        "POST /v1/threads/{thread}/runs",
        "GET /v1/threads/{thread}/runs/{run}",
        "GET /v1/threads/{thread}/runs/{run}/steps",
        "POST /v1/threads/{thread}/runs/{run}/cancel",
        "POST /v1/threads/{thread}/runs/{run}/submit_tool_outputs",
        reason="assistants call tools in runs that would not be judged",
    ),
    *routes_of(
        RouteKind.REFUSED,
        "GET /v1/realtime",
        "POST /v1/realtime/client_secrets",
        "POST /v1/realtime/sessions",
        "POST /v1/realtime/transcription_sessions",
        "POST /v1/realtime/calls",
        reason="calls of a live conversation would not be judged",
    ),
)


def deployment_of(path: str) -> str:
    """The model that the path names: Azure's deployments go before the body; empty: it names none."""
    match path.partition("?")[0].split("/"):
        case ["", "openai", "deployments", name, *_]:
            return unquote(name)
        case _:
            return ""
