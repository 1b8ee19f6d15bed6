"""Evaluates Rego with regorus, and is the process in which that happens.

A policy that runs away holds the interpreter's lock for as long as it likes, so the only hard stop is another process
(see `embedded.py`). This file is also that process's script and therefore imports nothing of ours.

Frames, both ways: four bytes of length (big-endian), then as many bytes. The first frame in is the load order as JSON
(`modules`, `data`, `rule`, `stop_after` in seconds, `memory` in bytes); each further one is an input document. Each is
answered in order by one frame: `+` and JSON, or `-` and JSON with `message`, `file`, `line`, `column`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import regorus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LENGTH = struct.Struct(">I")
FAIR = b"+"
FOUL = b"-"

_PLACE = re.compile(r"--> (.+?):(\d+):(\d+)\n")
_SAID = re.compile(r"^error: (.+?)(?:\n\s*\n|\nStack backtrace|\Z)", re.MULTILINE | re.DOTALL)
_LONGEST_MESSAGE = 500


@dataclass(eq=False)
class RegoError(Exception):
    """A module cannot be read or a rule cannot be evaluated. `line` and `column` count from 1; 0: not known."""

    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        return f"{place}{self.message}"


class EvaluatorLost(RegoError):
    """The engine panicked and is not to be used again."""


class Evaluator:
    """Modules and data, loaded once, evaluated many times. For the thread that made it."""

    def __init__(self, modules: Mapping[str, str], data: Mapping[str, object] | None = None) -> None:
        """`modules`: Rego text by path. Raises RegoError with the place of the first syntax error."""
        self._engine = regorus.Engine()
        # In the place of its own, which takes an IPv4 address in IPv6 clothes (::ffff:10.0.0.1) for another one.
        self._engine.add_extension("net.cidr_contains", 2, cidr_contains)
        with _errors():
            # Sorted: what an engine does must not hang on the order in which a file system lists names.
            for path in sorted(modules):
                self._engine.add_policy(path, modules[path])
            self._engine.add_data_json(json.dumps(data or {}))

    def evaluate(self, rule: str, document: str) -> str:
        """The value of a rule (`data.…`) as JSON text for an input document in JSON; `"<undefined>"` if there is none.

        Raises RegoError for everything that goes wrong, EvaluatorLost where the engine is no longer usable.
        """
        with _errors():
            self._engine.set_input_json(document)
            value: str | None = self._engine.eval_rule_as_json(rule)
        return '"<undefined>"' if value is None else value

    def syntax_trees(self) -> Any:
        """The abstract syntax tree of every module, as the engine gives it."""
        with _errors():
            return json.loads(self._engine.get_ast_as_json())

    def watch(self) -> None:
        """From now on it is noted which lines are reached; a copy notes for itself."""
        with _errors():
            self._engine.set_enable_coverage(True)

    def lines(self) -> dict[str, tuple[frozenset[int], frozenset[int]]]:
        """By module, the lines that were reached so far and those that were not. Only while watched."""
        with _errors():
            report = json.loads(self._engine.get_coverage_report_as_json())
        return {
            each["path"]: (frozenset(each["covered"]), frozenset(each["not_covered"]))
            for each in report["files"]
        }

    def copy(self) -> Evaluator:
        """The same, with nothing left over from evaluations so far."""
        twin = object.__new__(Evaluator)
        with _errors():
            twin._engine = self._engine.clone()
        return twin


def cidr_contains(network: object, other: object) -> bool:
    """Whether a network holds an address or another network, as OPA has it. Raises ValueError."""
    import ipaddress  # noqa: PLC0415 - few policies need it, and every worker starts quickly

    def read(text: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        if not isinstance(text, str) or "%" in text or re.search("/.*[^0-9]", text, re.DOTALL):
            raise ValueError(f"net.cidr_contains: {text!r} is no address or network")
        found = ipaddress.ip_network(text, strict=False)
        mapped = getattr(found.network_address, "ipv4_mapped", None)
        if mapped is None or found.prefixlen < 96:  # noqa: PLR2004 - the bits before the IPv4 address
            return found
        return ipaddress.IPv4Network((mapped, found.prefixlen - 96))

    outer, inner = read(network), read(other)
    if not isinstance(network, str) or "/" not in network:
        raise ValueError(f"net.cidr_contains: {network!r} is no network")
    if isinstance(outer, ipaddress.IPv4Network):
        return isinstance(inner, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, ipaddress.IPv6Network) and inner.subnet_of(outer)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """What regorus raises, as RegoError."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a Rust panic is no Exception
        text = str(error)
        message, file, line, column = _reading(text)
        if isinstance(error, Exception):
            raise RegoError(message, file, line, column) from None
        raise EvaluatorLost(f"the engine broke down: {message}", file, line, column) from None


def _reading(text: str) -> tuple[str, str, int, int]:
    """Message and place in an error text, without source lines and without a stack."""
    said = _SAID.search(text)
    message = said[1] if said else text.partition("Stack backtrace")[0]
    message = " ".join(message.split())[:_LONGEST_MESSAGE] or "error without a message"
    place = _PLACE.search(text)
    if place is None:
        return message, "", 0, 0
    return message, place[1], int(place[2]), int(place[3])


# --- the process --------------------------------------------------------------------------------------------------


def _frame(source: BinaryIO) -> bytes | None:
    """The next frame; None where the other side has gone."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    length: int = LENGTH.unpack(head)[0]
    body = source.read(length)
    return body if len(body) == length else None


def _answer(sink: BinaryIO, mark: bytes, body: bytes) -> None:
    sink.write(LENGTH.pack(len(body) + 1) + mark + body)
    sink.flush()


def _fault(error: RegoError) -> bytes:
    return json.dumps(asdict(error)).encode()


def _bound_memory(most: int) -> None:
    """A policy that collects without end ends itself, not its neighbours. 0: no bound."""
    if not most:
        return
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    with contextlib.suppress(ValueError, OSError):
        # On top of what is mapped already: the allocator keeps a gigabyte of addresses that it may never use.
        with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123 - a quick start needs few imports
            most += int(pages.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _arm(seconds: float) -> None:
    """The kernel ends this process after so long: also where nobody is left to do it, or nobody has the time."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _loaded(order: Mapping[str, Any]) -> Evaluator:
    evaluator = Evaluator(order["modules"], order["data"])
    # Compiles everything: regorus does so at the first evaluation, and finds unsafe variables only then.
    evaluator.evaluate(order["rule"], "{}")
    return evaluator


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Loads once, then answers until the other side has gone or the engine is lost."""
    first = _frame(source)
    if first is None:
        return
    order = json.loads(first)
    try:
        evaluator = _loaded(order)
    except RegoError as error:
        _answer(sink, FOUL, _fault(error))
        return
    _bound_memory(order["memory"])
    _answer(sink, FAIR, b"{}")
    while (document := _frame(source)) is not None:
        _arm(order["stop_after"])
        try:
            _answer(sink, FAIR, evaluator.evaluate(order["rule"], document.decode()).encode())
        except EvaluatorLost as error:
            _answer(sink, FOUL, _fault(error))
            return
        except (RegoError, UnicodeError) as error:
            known = error if isinstance(error, RegoError) else RegoError("the input is not UTF-8")
            _answer(sink, FOUL, _fault(known))
        _arm(0)


def main() -> None:
    """Serves on standard input and output; whatever else might print goes to standard error."""
    for name in ("SIGINT", "SIGTERM"):
        # The parent decides when this ends: a signal to the whole group must not cut decisions short.
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as sink:
        os.dup2(2, 1)
        with contextlib.suppress(BrokenPipeError):
            serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
