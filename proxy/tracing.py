"""The seam between what Callgate tells about a request and OpenTelemetry: `telemetry` is the other side.

Laws: nothing of it raises into a request or waits; times are epoch nanoseconds.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, ParamSpec, Protocol

from .figures import Figures
from .redaction import Redactor
from .trace_facts import Attributes

log = logging.getLogger(__name__)

SpanKind = Literal["server", "client", "internal"]
ToolSpans = Literal["auto", "always", "never"]

_Parameters = ParamSpec("_Parameters")

NANO = 1_000_000_000
CALLS_REMEMBERED = 8_192


class LiveSpan(Protocol):
    """A span that has begun."""

    @property
    def recording(self) -> bool:
        """Whether anybody will see it."""

    def set(self, attributes: Attributes) -> None:
        """Adds attributes."""

    def link(self, other: LiveSpan, attributes: Attributes) -> None:
        """Points to another span."""

    def fail(self) -> None:
        """Sets the status to ERROR."""

    def carrier(self) -> dict[str, str]:
        """Its W3C headers, lower-case; empty where there is no trace at all."""

    def anchor(self) -> LiveSpan:
        """A light stand-in with the same place in the trace, to be kept for later."""

    def end(self, end_ns: int | None = None) -> None:
        """Ends it."""


class Tracing(Protocol):
    """Makes spans and events. Times are epoch nanoseconds."""

    def remote(self, headers: Mapping[str, str]) -> LiveSpan | None:
        """The span that these (lower-case) headers name; None where they name none."""

    def start(
        self,
        title: str,
        kind: SpanKind,
        *,
        below: LiveSpan | None,
        attributes: Attributes,
        start_ns: int | None = None,
    ) -> LiveSpan:
        """A new span, a root where it is below none."""

    def event(self, title: str, within: LiveSpan, attributes: Attributes, *, warns: bool = False) -> None:
        """A log record with this event name in the span's trace."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """The spans of a call that was judged by this process."""

    decision: LiveSpan
    request: LiveSpan
    made_id: bool


class CallMemory:
    """The newest judged calls by run and call id, so that a later request's result finds its decision."""

    def __init__(self, limit: int = CALLS_REMEMBERED) -> None:
        self._calls: OrderedDict[tuple[str, str], JudgedCall] = OrderedDict()
        self._limit = limit

    def keep(self, run_id: str, call_id: str, judged: JudgedCall) -> None:
        """Remembers a call; the oldest one goes when there are too many."""
        self._calls[run_id, call_id] = judged
        if len(self._calls) > self._limit:
            self._calls.popitem(last=False)

    def take(self, run_id: str, call_id: str) -> JudgedCall | None:
        """The call, which is then forgotten."""
        return self._calls.pop((run_id, call_id), None)


@dataclass(slots=True)
class Spans:
    """What all requests share."""

    tracing: Tracing
    figures: Figures
    now_ns: Callable[[], int] = time.time_ns
    redactor: Redactor | None = None
    """Set: content is captured, through this."""
    run_trace: bool = True
    tool_spans: ToolSpans = "auto"
    older_names: bool = False
    judged: CallMemory = field(default_factory=CallMemory)


_complained: set[str] = set()
_complaining = threading.Lock()


def complain(where: str, fault: Exception) -> None:
    """Logs the fault, the first time that one happens there: telemetry never troubles a request."""
    with _complaining:
        if where in _complained:
            return
        _complained.add(where)
    log.error("telemetry: %s failed; requests are not affected, and this is said once", where, exc_info=fault)


def harmless(function: Callable[_Parameters, None]) -> Callable[_Parameters, None]:
    """What fails in it is logged once and forgotten."""

    @functools.wraps(function)
    def guarded(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception as fault:  # noqa: BLE001 - telemetry never breaks a request, whatever fails in it
            complain(function.__qualname__, fault)

    return guarded
