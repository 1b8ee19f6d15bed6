"""What agents and models say to each other, without any provider's shape.

Laws: everything here is a frozen value; nothing here knows a wire format; text that a provider sent
(ids, names, arguments) is kept exactly as it came.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CallKey = tuple[int, int]
"""Which call of a turn: (choice, slot). The slot is the dialect's own count, ascending in wire order."""


class Malformed(ValueError):
    """A request or an answer that cannot be read. The text says what is wrong and where, safe to show."""


class Role(StrEnum):
    """Who speaks in a message of the history."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolKind(StrEnum):
    """Who runs a tool, and in which form it is called."""

    FUNCTION = "function"
    """JSON arguments, run by the agent."""
    CUSTOM = "custom"
    """Free-form text instead of JSON arguments, run by the agent."""
    HOSTED = "hosted"
    """Run by the provider itself: its calls are seen, if at all, after the fact."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the agent offers to the model. `schema` is the JSON Schema of its arguments, if declared."""

    name: str
    kind: ToolKind = ToolKind.FUNCTION
    schema: Mapping[str, object] | None = None
    size: int = 0
    """Bytes of its definition, sent in every request (C14)."""
    options: Mapping[str, object] | None = None
    """Hosted tools: what the agent set for it (an MCP server's URL, allowed domains …), as policies read it. No secrets:
    headers and keys that the provider is to use are left out."""


class ChoiceMode(StrEnum):
    """How free the model is to call tools."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The agent's tool choice; `names` holds the forced or permitted tools where the mode names some."""

    mode: ChoiceMode = ChoiceMode.AUTO
    names: tuple[str, ...] = ()


UNREADABLE = "unreadable_call"
"""The name of a call in text that is marked as one and cannot be read: nobody offers such a tool, so it is refused."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model proposes (or proposed, in a history). `arguments` is the exact text the tool gets."""

    id: str
    name: str
    arguments: str
    key: CallKey = (0, 0)
    kind: ToolKind = ToolKind.FUNCTION
    made_id: bool = False
    """The provider sent no id and this proxy made one: it has to be written into the released call."""
    form: str = ""
    """The dialect's own word for how it is called, where it has several: results are written in the same form."""
    channel: str = ""
    """The text channel that it was found in; empty: a native call."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back, as text; `is_error` is the wire's own error flag where the dialect has one."""

    call_id: str
    text: str
    is_error: bool = False
    is_hearsay: bool = False
    """It stood in a text that others could have written (a user's message): it counts as a step, but no rule may rest on
    what it says."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of the history. `digest` identifies its content (16+ bytes), cache marks left out."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    digest: bytes = b""

    @property
    def is_user_turn(self) -> bool:
        """A person (or the agent's task) speaks: may open a new turn scope.

        A message that brings results does not, whatever text comes with them: many agents put reminders there.
        """
        return self.role is Role.USER and not self.results


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as billed. `input_tokens` includes what came from or went to a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Those of `cache_write_tokens` that are kept for an hour."""
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """The tokens of two answers together."""
        return Usage(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(Usage)))


@dataclass(frozen=True, slots=True)
class Request:
    """One model request of an agent, read shallowly."""

    dialect: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    stream: bool = False
    choices: int = 1
    max_output: int | None = None
    asks_usage: bool = True
    """The agent will see usage in the answer. False: a streamed chat request that did not ask for it (C019)."""
    conversation: str = ""
    """A conversation id that the agent itself named in the body, if any. Where it is `previous` as well, the provider
    adds every answer to it."""
    size: int = 0
    """Bytes of the body."""
    text_size: int = 0
    """Bytes that the model reads as text: `size` less inline pictures, audio and files."""
    stream_type: str = "text/event-stream"
    """Media type of the stream that the agent asked for."""
    previous: str = ""
    """What the provider keeps and this request goes on from: the id of an earlier answer or of a conversation. The
    messages then hold only what is new. Empty: they are the whole history."""
    background: bool = False
    """The answer is to be made later and fetched."""
    store: bool = False
    """The provider is to keep the answer under its id."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the offered tools, in order."""
        return tuple(tool.name for tool in self.tools)

    def tool(self, name: str) -> Tool | None:
        """The offered tool of exactly this name."""
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, slots=True)
class Turn:
    """One whole answer of the model."""

    id: str = ""
    model: str = ""
    text: str = ""
    """Visible text of the first choice."""
    calls: tuple[ToolCall, ...] = ()
    """In wire order, over all choices."""
    hosted_calls: tuple[ToolCall, ...] = ()
    """Calls that the provider has run itself: recorded, not judged."""
    finish: tuple[str, ...] = ()
    """The provider's own finish words, one a choice; never trusted (C11)."""
    usage: Usage | None = None
    message: bytes = b""
    """The assistant message of the first choice in the dialect's own JSON, as it goes back into a history."""
    is_kept: bool = False
    """The provider keeps it under its id: a later request may go on from it, calls and all (`Request.previous`)."""
    error: Problem | None = None
    """The provider reported an error inside an answer that began well."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error to be said in a dialect's own shape. `fields` are for programs (budget, scope, limit, used …)."""

    status: int
    code: str
    message: str
    fields: Mapping[str, str | int | float | None] = field(default_factory=dict)
    retryable: bool = False


# --- stream events -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The answer has an id and a model."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Visible text of a choice (not reasoning)."""

    choice: int
    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The frame carries a piece of this call. One event a piece, in the order of the pieces in the frame."""

    key: CallKey


@dataclass(frozen=True, slots=True)
class CallReady:
    """This call is whole: its id, name and arguments are all there."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class HostedCall:
    """The provider ran this call itself."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ChoiceEnded:
    """The provider says that this choice has ended; every call of it is ready by now."""

    choice: int
    finish: str


@dataclass(frozen=True, slots=True)
class UsageSeen:
    """Usage so far of the whole answer (a later one replaces an earlier one)."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The provider's own mark that the stream is complete."""


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """The provider reports an error inside the stream."""

    problem: Problem


Event = (
    TurnStarted
    | TextDelta
    | CallDelta
    | CallReady
    | HostedCall
    | ChoiceEnded
    | UsageSeen
    | StreamEnded
    | StreamFailed
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One unit of a stream as it came, terminator included, with what it means.

    `raw` joined over all frames is the stream, byte for byte. `payload` is the decoded JSON for the dialect's
    own writer and means nothing to anybody else.
    """

    raw: bytes
    events: tuple[Event, ...] = ()
    payload: object = None
    usage_only: bool = False
    """Carries nothing but usage: left out for an agent that did not ask for it."""
    shown: str | None = None
    """What the agent gets of the visible text of choice 0 in this frame (`Writer.rewritten`); None: all of it."""


# --- edits of a request ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn that was refused inside the proxy, with the refusal for each of its calls, in order."""

    message: bytes
    """The assistant message in the dialect's own JSON."""
    results: tuple[tuple[ToolCall, str], ...]
    answer: str = ""
    """The id of the turn: where the provider keeps the history, the results go there."""


@dataclass(frozen=True, slots=True)
class TextExchange:
    """A turn whose calls were text and were refused inside the proxy: what the assistant is taken to have said, and what
    is said to it in the place of results, as the user."""

    said: str
    reply: str


@dataclass(frozen=True, slots=True)
class ResultText:
    """A result of the history as the model is to read it: its text replaced, pictures and the like left in place."""

    message_index: int
    result_index: int
    """Into the results of this message."""
    text: str


@dataclass(frozen=True, slots=True)
class MissingResult:
    """A call in the history that has no result: one is added behind the message at `message_index`."""

    message_index: int
    """-1: the call is not in the request but in what the provider keeps."""
    call: ToolCall
    text: str

    @property
    def is_owed(self) -> bool:
        """The provider itself keeps the call."""
        return self.message_index < 0


@dataclass(frozen=True, slots=True)
class RequestEdit:
    """What Callgate changes in a request. An empty edit leaves every byte alone."""

    keep_tools: frozenset[str] | None = None
    """Only these tools stay, in the agent's order and bytes; None: all. Nothing left: no tools, no tool choice."""
    tool_choice: ToolChoice | None = None
    ask_usage: bool = False
    missing_results: tuple[MissingResult, ...] = ()
    exchanges: tuple[Exchange | TextExchange, ...] = ()
    owed: tuple[tuple[ToolCall, str], ...] = ()
    """Results that the provider waits for and the agent cannot know of (the calls were refused in an answer that the
    provider keeps): they go in front of all else that is new."""
    previous: str | None = None
    """The id by which the provider knows what the agent goes on from, where it knows it by another; empty: it knows
    nothing of it, so the reference is taken out. None: as the agent wrote it."""
    results: tuple[ResultText, ...] = ()
    note: str = ""
    """An instruction at the very tail: joined to the newest user or tool message, behind everything cached."""
    max_output: int | None = None

    def __bool__(self) -> bool:
        """Whether anything is to be changed."""
        return self != RequestEdit()
