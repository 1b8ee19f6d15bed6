"""How log lines look: plain for people at a terminal, one JSON object a line elsewhere.

Nothing that comes from outside can forge a line: control characters and everything else outside printable ASCII is
escaped, and the lines of a traceback are indented. Secrets that can be told by their look are taken out.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, TextIO

from .printable import escaped
from .redaction import Redactor

Format = Literal["auto", "plain", "json"]

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
}


class PlainFormatter(logging.Formatter):
    """`2026-12-01 04:12:00.123 WARNING callgate.gate: text (key=value)`, a traceback indented below it."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """One line and, indented, its traceback."""
        extras = " ".join(f"{key}={value}" for key, value in _extras(record).items())
        text = self._redactor.text(record.getMessage() + (f" ({extras})" if extras else ""))
        when = datetime.fromtimestamp(record.created, UTC).isoformat(" ", "milliseconds")[:-6]
        lines = [f"{when} {record.levelname} {escaped(record.name)}: {escaped(text)}"]
        lines += [
            f"    {escaped(line)}" for line in self._redactor.text(_traceback(self, record)).splitlines()
        ]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object in ASCII: time, level, logger, message, then what the caller added, then exception."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redactor.text(record.getMessage()),
        }
        for key, value in _extras(record).items():
            kept = value is None or (isinstance(value, bool | int | float) and math.isfinite(value))
            line.setdefault(key, value if kept else self._redactor.text(str(value)))
        if trace := _traceback(self, record):
            line["exception"] = self._redactor.text(trace)
        return json.dumps(line).replace("\x7f", "\\u007f")


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""


class FewPerPeriod(logging.Filter):
    """Lets each message of the named loggers through once a period (seconds), with how many were left out.

    An exporter whose collector is down complains at every retry; once a period is enough to know (C035).
    """

    MOST_MESSAGES = 256

    def __init__(
        self, names: tuple[str, ...], period: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._names = names
        self._period = period
        self._clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is written."""
        if not any(record.name == name or record.name.startswith(f"{name}.") for name in self._names):
            return True
        key = (record.name, str(record.msg))
        now = self._clock()
        with self._lock:
            since, left_out = self._seen.get(key, (-self._period, 0))
            if now - since < self._period:
                self._seen[key] = (since, left_out + 1)
                return False
            if len(self._seen) >= self.MOST_MESSAGES:
                self._seen.clear()
            self._seen[key] = (now, 0)
        if left_out:
            record.left_out = left_out
        return True


def configure_logging(
    level: str = "INFO", fmt: Format = "auto", stream: TextIO | None = None
) -> logging.Handler:
    """Sends all logging to `stream` (standard error) in this form; replaces what an earlier call set up.

    Raises ValueError for an unknown level or format.
    """
    stream = stream or sys.stderr
    if fmt not in {"auto", "plain", "json"}:
        raise ValueError(f"log format {fmt!r} is unknown: use auto, plain or json")
    plain = fmt == "plain" or (fmt == "auto" and stream.isatty())
    redactor = Redactor()
    ours = _Output(stream)
    ours.setFormatter(PlainFormatter(redactor) if plain else JsonFormatter(redactor))
    ours.addFilter(FewPerPeriod(("opentelemetry", "urllib3")))
    root = logging.getLogger()
    root.setLevel(level.upper())
    for earlier in [each for each in root.handlers if isinstance(each, _Output)]:
        root.removeHandler(earlier)
    root.addHandler(ours)
    return ours


class _Output(logging.StreamHandler[TextIO]):
    """Told apart from what others attach to the root logger."""
