"""Listens for calls in text between a dialect and the gate, so that both know only calls.

1. Frames leave verbatim: one is kept back only while its text may yet belong to a call.
2. What was found in text is judged, held and refused like any other call; where it is refused, its text goes.
3. An agent without channels pays nothing: a `Listener` without channels hands everything through.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from .channels.scanner import Scanner, defused
from .core.messages import UNREADABLE, CallDelta, CallReady, Exchange, Role, TextExchange, Tool
from .heard_text import (
    FIRST_SLOT,
    HeardText,
    applied_edits,
    calls_of,
    identified,
    paired_results,
    said_by,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .channel_settings import ChannelSettings
    from .channels import Channel
    from .core.messages import CallKey, Frame, Message, Problem, Request, ToolCall, Turn
    from .dialects import Dialect, Reader, Writer


def listener_for(settings: Sequence[ChannelSettings], agent: str) -> Listener:
    """The listener of this agent's requests."""
    return Listener(tuple(one for one in settings if one.holds_for(agent)))


class Listener:
    """The text channels of one request."""

    def __init__(self, settings: Sequence[ChannelSettings] = ()) -> None:
        """No settings: nothing is listened for."""
        self._channels: tuple[Channel, ...] = tuple(one.channel() for one in settings)
        self._tools = tuple(dict.fromkeys(name for one in settings for name in one.tools))
        self._defused = tuple(
            rule
            for one, channel in zip(settings, self._channels, strict=True)
            if one.defuse
            for rule in channel.rules
        )
        self._heard: HeardText | None = None

    @property
    def is_on(self) -> bool:
        """There is something to listen for."""
        return bool(self._channels)

    def scanner(self) -> Scanner:
        """For one answer."""
        wholes = [replace(one.whole, channel=one.name) for one in self._channels if one.whole is not None]
        rules = [replace(rule, channel=one.name) for one in self._channels for rule in one.rules]
        return Scanner(rules, wholes[0] if wholes else None)

    # --- requests ---

    def heard(self, request: Request) -> Request:
        """The request with the calls and results in the texts of its history."""
        if not self.is_on:
            return request
        messages = tuple(self._messages(request))
        tools = request.tools or tuple(Tool(name) for name in self._tools)
        return replace(request, messages=messages, tools=tools)

    def offering(self, request: Request, calls: Sequence[ToolCall]) -> Request:
        """The request with the tools that these calls name, where the agent describes its tools in words alone."""
        known = set(request.tool_names)
        named = dict.fromkeys(
            call.name for call in calls if call.channel and call.name not in known | {UNREADABLE}
        )
        if not named or self._tools or any(tool.schema is not None for tool in request.tools):
            return request
        return replace(request, tools=(*request.tools, *(Tool(name) for name in named)))

    def defused(self, text: str) -> str:
        """The text of a result in which no mark of a channel is whole."""
        return defused(text, self._defused)

    @property
    def defuses(self) -> bool:
        """Whether marks in results are to be broken."""
        return bool(self._defused)

    def _messages(self, request: Request) -> Iterator[Message]:
        is_native = any(message.calls or message.results for message in request.messages)
        waiting: list[ToolCall] = []
        for message in request.messages:
            if message.role is Role.ASSISTANT and message.text:
                waiting = list(calls_of(self._scanned(message.text)))
                yield replace(message, calls=message.calls + tuple(waiting))
            elif message.role is Role.USER and message.text and not message.results:
                texts = [text for channel in self._channels for text in channel.results(message.text)]
                if waiting and texts:
                    yield replace(message, results=paired_results(waiting, texts))
                    waiting = []
                else:
                    yield from [message] if is_native else self._unfolded(message)
            else:
                yield message

    def _unfolded(self, message: Message) -> Iterator[Message]:
        """A message that holds the conversation so far, as the messages it stands for."""
        for channel in self._channels:
            before, parts = channel.past(message.text)
            if not parts:
                continue
            yield said_by(Role.USER, before)
            for part in parts:
                calls = tuple(identified(part.calls, {}, channel=channel.name))
                yield replace(said_by(Role.ASSISTANT, part.said), calls=calls)
                yield replace(
                    said_by(Role.USER, part.result), text="", results=paired_results(calls, [part.result])
                )
            return
        yield said_by(Role.USER, message.text)

    def _scanned(self, text: str) -> Scanner:
        scanner = self.scanner()
        scanner.feed(text)
        scanner.end()
        return scanner

    def _channel(self, name: str) -> Channel:
        return next(channel for channel in self._channels if channel.name == name)

    def _refusal(self, calls: Sequence[tuple[ToolCall, str]]) -> str:
        """Refusals in order, each in the form of the channel that its call came in."""
        groups = groupby(calls, lambda one: one[0].channel)
        return "\n".join(
            self._channel(name).refusal([(call.name, said) for call, said in group]) for name, group in groups
        )

    # --- answers ---

    def reader(self, reader: Reader) -> Reader:
        """The reader of one streamed answer, with the calls in its text."""
        if not self.is_on:
            return reader
        self._heard = HeardText(reader, self.scanner())
        return self._heard

    def writer(self, writer: Writer) -> Writer:
        """The writer of the agent's stream."""
        return _TextWriter(writer, self) if self.is_on else writer

    def turn(self, turn: Turn) -> Turn:
        """A whole answer with the calls in its text; what the model made up behind them is cut off."""
        if not self.is_on or not turn.text:
            return turn
        scanner = self._scanned(turn.text)
        calls = tuple(calls_of(scanner))
        text = turn.text if scanner.cut is None else turn.text[: scanner.cut]
        return replace(turn, text=text, calls=turn.calls + calls)

    def edited(
        self,
        dialect: Dialect,
        body: bytes,
        turn: Turn,
        refused: Collection[CallKey],
        note: str,
        earlier: Sequence[Turn],
    ) -> bytes:
        """`Dialect.edit_response` for an answer that was read with `turn`."""
        if not self.is_on:
            return dialect.edit_response(body, turn, refused, note, earlier)
        plain = dialect.parse_response(body, lambda: "")
        in_text = {key for key in refused if key[1] >= FIRST_SLOT}
        native = set(refused) - in_text
        scanner = self._scanned(plain.text)
        edits = list(self._edits(scanner, in_text, note, len(turn.calls) == len(refused)))
        text = applied_edits(plain.text, 0, edits)
        body = dialect.rewrite_response(body, text) if edits else body
        calls = tuple(call for call in turn.calls if not call.channel)
        left = replace(turn, text=text, calls=calls)
        # A refused call in text has the note in its place.
        return dialect.edit_response(body, left, native, note if native and not in_text else "", earlier)

    def spoken(self, turn: Turn) -> Turn:
        """An answer that is given up, with what of its text is no call: the agent may read that."""
        if not self.is_on or not turn.text:
            return turn
        text = applied_edits(
            turn.text, 0, [(region.start, region.end, "") for region in self._scanned(turn.text).regions]
        )
        return replace(turn, text=text.rstrip())

    def answer(self, text: str) -> str:
        """A text by program, in the form that the agent takes for a final answer."""
        return self._channels[0].answer(text) if self._channels else text

    def exchanges(self, turn: Turn, refusals: Sequence[str]) -> tuple[list[Exchange | TextExchange], str]:
        """How a refused answer and its refusals go back to the model, and a note where that is not enough."""
        results = list(zip(turn.calls, refusals, strict=True))
        in_text = [(call, said) for call, said in results if call.channel]
        if not in_text:
            return [Exchange(turn.message, tuple(results), turn.id)], ""
        native = tuple((call, said) for call, said in results if not call.channel)
        if native:
            return [Exchange(turn.message, native, turn.id)], self._refusal(in_text)
        # Of a stream the turn says what the agent has got, which is less.
        text = self._heard.scanner.text if self._heard is not None else turn.text
        regions = self._scanned(text).regions
        said = text[: regions[-1].end] if regions else text
        return [TextExchange(said.rstrip() or "…", self._refusal(in_text))], ""

    def _edits(
        self, scanner: Scanner, refused: Collection[CallKey], note: str, all_refused: bool
    ) -> Iterator[tuple[int, int, str]]:
        """What is replaced in the text: refused calls, with the note in the place of the first, and what was made up."""
        note = self.answer(note) if all_refused and note else note
        number = FIRST_SLOT
        for region in scanner.regions:
            keys = [(0, number + place) for place in range(len(region.calls))]
            number += len(keys)
            kept = [call for call, key in zip(region.calls, keys, strict=True) if key not in refused]
            if len(kept) < len(keys):
                parts = [note, self._channel(region.channel).written(kept) if kept else ""]
                yield region.start, region.end, "\n".join(filter(None, parts))
                note = ""
        if scanner.cut is not None:
            yield scanner.cut, len(scanner.text), ""

    def frames(
        self, frames: Sequence[Frame], refused: Collection[CallKey], note: str, *, all_refused: bool
    ) -> list[Frame]:
        """The held frames with the text that the agent may see."""
        heard = self._heard
        if heard is None:
            return list(frames)
        edits = list(self._edits(heard.scanner, refused, note, all_refused))
        shown = []
        for frame in frames:
            span = heard.spans.get(id(frame))
            if span is None or span[0] == span[1]:
                shown.append(frame)
                continue
            text = heard.scanner.text[span[0] : span[1]]
            left = applied_edits(text, span[0], edits)
            shown.append(frame if left == text else replace(frame, shown=left))
        return shown


class _TextWriter:
    """A `Writer` that takes refused calls out of the text."""

    def __init__(self, writer: Writer, listener: Listener) -> None:
        self._writer = writer
        self._listener = listener

    def passed(self, frame: Frame) -> bytes:
        """The frame, with the text that may be shown."""
        if frame.shown is not None:
            return self._writer.rewritten(replace(frame, shown=None), frame.shown)
        return self._writer.passed(frame)

    def rewritten(self, frame: Frame, text: str) -> bytes:
        """As the dialect does it."""
        return self._writer.rewritten(frame, text)

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """The held frames without the text of refused calls; calls of the dialect's own are left to it."""
        in_text = {key for key in refused if key[1] >= FIRST_SLOT - 1}
        native = set(refused) - in_text
        ready = {event.call.key for frame in frames for event in frame.events if isinstance(event, CallReady)}
        shown = self._listener.frames(frames, in_text, note, all_refused=ready <= set(refused))
        # A refused call in text has the note in its place.
        note = "" if in_text else note
        if not native and not note:
            return b"".join(map(self.passed, shown))
        out = bytearray()
        for is_shown, group in groupby(shown, lambda frame: frame.shown is not None):
            if is_shown:
                out += b"".join(map(self.passed, group))
                continue
            frames = list(group)
            calls = any(
                isinstance(event, CallDelta | CallReady) for frame in frames for event in frame.events
            )
            said, note = (note, "") if calls or frames[-1] is shown[-1] else ("", note)
            out += self._writer.resolved(frames, native, said)
        return bytes(out)

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """As the dialect does it."""
        return self._writer.abandoned(frames, turn)

    def closing(self, text: str) -> bytes:
        """In the form that the agent takes for a final answer."""
        return self._writer.closing(self._listener.answer(text) if text else text)

    def failed(self, problem: Problem) -> bytes:
        """As the dialect does it."""
        return self._writer.failed(problem)

    def keep_alive(self) -> bytes:
        """As the dialect does it."""
        return self._writer.keep_alive()
