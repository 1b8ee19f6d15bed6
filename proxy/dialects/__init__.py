"""Only here are a provider's JSON keys known. `DIALECTS` is the list.

A dialect reads requests and answers into the neutral words of `core.messages`, and writes: it edits a request by
splices that move nothing before them, lets the provider's own frames through verbatim, takes refused calls out of
held frames, continues an open stream with another answer, and says things by program in a valid shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from proxy.core.messages import CallKey, Frame, Problem, Request, RequestEdit, Turn, Usage


class RouteKind(StrEnum):
    """What happens to the requests of a route."""

    GUARDED = "guarded"
    """A model request: parsed and judged, and so is its answer."""
    KEPT = "kept"
    """About one answer that the provider keeps, named by `{answer}` in the path: only for the identity that it was made
    for (without `{answer}`: makes something that the provider keeps, from then on its caller's); an answer that comes back is judged like any other."""
    PASSED = "passed"
    """Carries no calls: passes through unread."""
    REFUSED = "refused"
    """Could carry calls past the guard: refused until the operator opens it by name."""


@dataclass(frozen=True, slots=True)
class Route:
    """A path of a dialect, with `{name}` for one segment or part of one."""

    method: str
    path: str
    kind: RouteKind = RouteKind.GUARDED
    reason: str = ""
    """Why it is refused, in a few words."""
    judged: bool = True
    """Of a kept answer: what comes back is the answer itself."""
    unstreamed: str = ""
    """Of a kept answer: the parameter that would ask for it as a stream, which nobody could judge."""
    made_id: Callable[[bytes], str] | None = None
    """Of a kept route without `{answer}`: reads the id of what was made from what comes back. Raises Malformed."""
    encoded_slash: bool = False
    """What stands for a hole may hold `%2F`, as the ids of some resources do."""

    @property
    def guarded(self) -> bool:
        """Requests are parsed and judged, and so are their answers."""
        return self.kind is RouteKind.GUARDED


def routes_of(kind: RouteKind, *lines: str, reason: str = "") -> tuple[Route, ...]:
    """Routes of one kind, each written as `METHOD /path`."""
    return tuple(
        Route(method, path, kind, reason) for method, _, path in (line.partition(" ") for line in lines)
    )


class Reader(Protocol):
    """Reads one streamed answer. Fed bytes cut anywhere; gives whole frames."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are complete with this chunk. Joined, their `raw` is what came in, byte for byte."""

    def end(self) -> list[Frame]:
        """The stream is over: what is left. An unfinished frame has events only if it reads like a whole one."""

    def turn(self) -> Turn:
        """The answer as read so far."""


class Writer(Protocol):
    """Writes one answer stream to the agent; it lives as long as the agent's stream, over any number of re-asks.

    It remembers what the agent has already got (id, model, open block, indices, usage of abandoned answers).
    """

    def passed(self, frame: Frame) -> bytes:
        """Bytes for a frame that is let through: its own, unless the stream is a continuation (then re-labelled:
        one id, no second opening, shifted indices) or the agent did not ask for usage (then b"")."""

    def rewritten(self, frame: Frame, text: str) -> bytes:
        """As `passed`, with the visible text of choice 0 in this frame replaced by `text`; b"" where nothing is left."""

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """Held frames with the refused calls taken out, kept calls numbered without a gap, `note` (if any) as
        visible text before the first kept call. Nothing refused and no note: exactly what `passed` gives.
        Once no call of a choice is left its finish word is the ordinary one, also in later frames."""

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """These held frames are dropped and another answer (a new Reader's frames) will continue the stream. Bytes
        to close what is open, if any; text so far and text to come are set apart."""

    def closing(self, text: str) -> bytes:
        """Ends the stream by program with `text` as the (rest of the) visible answer, as an ordinary end. Works
        before the first frame too (then it opens the answer itself), and after the choice has ended."""

    def failed(self, problem: Problem) -> bytes:
        """An error in the middle of a stream, in the dialect's own shape, after which nothing follows."""

    def keep_alive(self) -> bytes:
        """Bytes that are no content (an SSE comment)."""


class Dialect(Protocol):
    """One provider format. Pure: bytes in, values out; raises only `core.messages.Malformed`."""

    @property
    def name(self) -> str:
        """E.g. `openai-chat`: for settings, spans and records."""

    @property
    def provider(self) -> str:
        """The conventional `gen_ai.provider.name`."""

    @property
    def routes(self) -> Sequence[Route]:
        """The paths that speak this dialect, as the official SDK requests them below its base URL."""

    @property
    def base_url(self) -> str:
        """Where the official SDK would send requests; the default upstream."""

    @property
    def sdk_base_path(self) -> str:
        """What the base URL of the official SDK has behind the host: `/v1` or nothing."""

    @property
    def credential_headers(self) -> Sequence[str]:
        """Lower-case names of the headers that may carry the caller's key."""

    @property
    def credential_parameters(self) -> Sequence[str]:
        """Names of the query parameters that may carry the caller's key."""

    def credential(self, key: str) -> Mapping[str, str]:
        """The header that carries this key upstream."""

    def parse_request(self, body: bytes, path: str = "") -> Request:
        """Reads a request; `path` is canonical, with its query (some dialects name the model there). Raises Malformed
        with a sentence for the developer of the agent."""

    def edit_request(self, body: bytes, edit: RequestEdit) -> bytes:
        """The request with the edit spliced in; every byte before the first splice stays. No edit: the same object."""

    def parse_response(self, body: bytes, fresh_id: Callable[[], str]) -> Turn:
        """Reads a whole (not streamed) answer of status 200. Raises Malformed where it is none."""

    def edit_response(
        self, body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
    ) -> bytes:
        """The answer with refused calls taken out (finish word corrected when none is left), the note as visible text
        before the first kept call, and text and usage of the abandoned `earlier` answers in front. `turn` is what
        `parse_response` read from this body: the ids that it made are filled in. Nothing to change: the same object."""

    def rewrite_response(self, body: bytes, text: str) -> bytes:
        """The answer with the visible text of its first choice replaced."""

    def parse_kept(self, body: bytes) -> Request:
        """The request of an answer that the provider kept, as far as the answer itself shows it (model, tools, tool
        choice). Raises Malformed where the dialect keeps none."""

    def reader(self, fresh_id: Callable[[], str]) -> Reader:
        """Reads one streamed answer. `fresh_id` makes an id for a call that came without one."""

    def writer(self, request: Request, answer_id: str) -> Writer:
        """Writes the agent's stream. `answer_id` is used if the proxy itself has to open the answer."""

    def render_answer(self, request: Request, answer_id: str, text: str, usage: Usage, now: int) -> bytes:
        """A whole, not streamed answer made by program, which an SDK reads as an ordinary end (no call)."""

    def render_problem(self, problem: Problem) -> bytes:
        """The body of an error, as the official SDK expects it; `problem.fields` inside, for programs."""


from .anthropic import ANTHROPIC  # noqa: E402  # only now: it needs the words above
from .bedrock import BEDROCK_CONVERSE  # noqa: E402  # as above
from .gemini import GEMINI  # noqa: E402  # as above
from .ollama import OLLAMA  # noqa: E402  # as above
from .openai_chat import OPENAI_CHAT  # noqa: E402  # as above
from .openai_responses import OPENAI_RESPONSES  # noqa: E402  # as above

DIALECTS: tuple[Dialect, ...] = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, OLLAMA, BEDROCK_CONVERSE)
"""All dialects that are spoken. A path that several speak is told apart by its caller's headers."""
