"""Log lines: plain or JSON, never forged, never a flood, no secrets (C025, C035)."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from proxy.logs import FewPerPeriod, configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def log() -> logging.Logger:
    return logging.getLogger("callgate.sample")


def test_a_terminal_gets_plain_lines_and_everything_else_json(log: logging.Logger) -> None:
    for stream, begins in ((Terminal(), "20"), (io.StringIO(), "{")):
        configure_logging(stream=stream)
        log.warning("hello")

        assert stream.getvalue().startswith(begins)
        assert stream.getvalue().count("\n") == 1, "an earlier set-up is replaced"


def test_a_plain_line_has_time_level_logger_text_and_extras(log: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("info", "plain", stream)

    log.info("run %s ended", "run_1", extra={"rounds": 3})
    log.debug("not shown")

    time, rest = stream.getvalue()[:23], stream.getvalue()[23:]
    assert time[10] == " "
    assert rest == " INFO callgate.sample: run run_1 ended (rounds=3)\n"


def test_a_json_line_has_the_same_as_fields(log: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("INFO", "json", stream)

    log.warning(
        "run ended",
        extra={"rounds": 3, "tool": "se\u0430rch", "level": "fake", "odd": {1}, "rate": float("nan")},
    )

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "callgate.sample",
        "message": "run ended",
        "rounds": 3,
        "tool": "se\u0430rch",
        "odd": "{1}",
        "rate": "nan",
    }


def fail(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("fmt", ["plain", "json"])
def test_hostile_names_cannot_forge_or_hide_a_line(fmt: str, log: logging.Logger) -> None:
    """C025: code points outside printable ASCII are escaped."""
    stream = io.StringIO()
    configure_logging("INFO", fmt, stream)  # type: ignore[arg-type]  # one of the formats

    log.warning(
        "tool %s",
        "x\n2026-12-01 00:00:00.000 INFO root: all is well\x1b[2K\u2028\x7f",
        extra={"a": "\u202e\n"},
    )
    try:
        fail("boom\n2026-12-01 00:00:00.000 INFO root: all is well\x1b")
    except ValueError:
        log.exception("failed")

    text = stream.getvalue()
    assert all(character == "\n" or " " <= character <= "~" for character in text)
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    assert len(lines) == 2
    assert "ValueError: boom" in text


@pytest.mark.parametrize("fmt", ["plain", "json"])
def test_secrets_do_not_get_into_the_log(fmt: str, log: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("INFO", fmt, stream)  # type: ignore[arg-type]  # one of the formats
    try:
        fail("Authorization: Bearer CANARY-0123456789")
    except ValueError:
        log.exception("password=CANARY", extra={"header": "sk-CANARY-0123456789"})

    assert "CANARY" not in stream.getvalue()


def test_unknown_formats_and_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="use auto, plain or json"):
        configure_logging(fmt="xml")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="LOUD"):
        configure_logging("loud", stream=io.StringIO())


def test_an_exporter_in_trouble_is_heard_once_a_period() -> None:
    """C035: logged once a period, with how many lines were left out."""
    now = 0.0
    few = FewPerPeriod(("opentelemetry",), 60.0, lambda: now)

    def passes(text: str, logger: str = "opentelemetry.exporter") -> bool:
        record = logging.LogRecord(logger, logging.WARNING, "", 0, text, (), None)
        passed = few.filter(record)
        left_out.append(getattr(record, "left_out", 0))
        return passed

    left_out: list[int] = []
    assert [passes("retry"), passes("retry"), passes("gave up"), passes("retry")] == [
        True,
        False,
        True,
        False,
    ]
    assert passes("retry", "callgate.gate")
    assert passes("retry", "callgate.gate")
    now = 61.0
    assert passes("retry")
    assert left_out[-1] == 2


def test_what_is_remembered_of_messages_is_bounded() -> None:
    few = FewPerPeriod(("x",), 60.0, lambda: 0.0)
    for number in range(10 * few.MOST_MESSAGES):
        few.filter(logging.LogRecord("x", logging.INFO, "", 0, f"{number}", (), None))

    assert len(few._seen) <= few.MOST_MESSAGES
