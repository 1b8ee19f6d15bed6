"""Rego as the embedded engine is given it: the same decisions, without two faults of that engine.

1. A reference to a package as a whole, such as an imported name, evaluates every rule of it, and wrongly where it has
   several files. So imported names of `data` are written out, and each reference leads to one rule.
2. Where the value in a rule's head is undefined for the last of several bindings, those of the others are lost: a
   denial would vanish for one call because another call lacks a field. So the value is bound at the end of the body,
   which is also how OPA compiles it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .syntax import RegoModule, RegoRule, end_of, nodes, written

BOUND = "said__"
"""The variable that takes a head's value."""
_CONTAINS = re.compile(rb"\s+contains\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the new text, and where they came from; `origin` -1: written by us."""

    text: bytes
    origin: int = -1


@dataclass(frozen=True)
class Rewritten:
    """A module for the embedded engine, made of pieces of the module as it was written."""

    text: str
    pieces: tuple[Piece, ...] = ()
    source: bytes = b""

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file of a place that the engine names (all from 1)."""
        if not self.pieces:
            return line, column
        rows = self.text.split("\n")
        if not 1 <= line <= len(rows):
            return line, column
        at = len("\n".join([*rows[: line - 1], ""]).encode()) + len(rows[line - 1][: column - 1].encode())
        return self._in_source(at)

    def _in_source(self, at: int) -> tuple[int, int]:
        starts, begun = [], 0
        for piece in self.pieces:
            starts.append(begun)
            begun += len(piece.text)
        found = max(0, bisect_right(starts, at) - 1)
        piece, start = self.pieces[found], starts[found]
        if piece.origin >= 0:
            origin = piece.origin + min(at - start, len(piece.text))
        else:  # the nearest before it
            before = [each for each in self.pieces[:found] if each.origin >= 0]
            origin = before[-1].origin + len(before[-1].text) if before else 0
        head = self.source[:origin]
        return head.count(b"\n") + 1, len(head.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1


def rewritten(module: RegoModule) -> Rewritten:
    """The module with imported names written out and heads bound in bodies."""
    names = _names(module)
    pieces: list[Piece] = []
    at = 0
    for rule in module.rules:
        for moved in _moves(module, rule):
            pieces += _copied(module, names, at, moved.value_start)
            pieces.append(Piece(f"{BOUND} ".encode()))
            pieces += _copied(module, names, moved.value_end, moved.open_at)
            pieces.append(Piece(moved.opening))
            pieces += _copied(module, names, moved.open_at, moved.insert_at)
            pieces.append(Piece(moved.before))
            pieces += _copied(module, names, moved.value_start, moved.value_end)
            pieces.append(Piece(moved.after))
            at = moved.insert_at
    pieces += _copied(module, names, at, len(module.source))
    return Rewritten(b"".join(piece.text for piece in pieces).decode(), tuple(pieces), module.source)


def bound_keys(rule: RegoRule) -> bool:
    """Whether the keys in a rule's head are names and literals: others are not moved into the body."""
    if "Spec" not in rule.node or not rule.node["Spec"]["bodies"]:
        return True
    ((kind, head),) = rule.node["Spec"]["head"].items()
    refr = head["refr"]
    while "Var" not in refr:
        ((step, body),) = refr.items()
        if step == "RefBrack" and not _is_plain(body["index"]):
            return False
        # A set below a name in brackets cannot be told from the text.
        if step == "RefBrack" and kind == "Set":
            return False
        refr = body["refr"]
    return True


def _copied(
    module: RegoModule, names: Mapping[int, tuple[int, bytes]], start: int, end: int
) -> Iterator[Piece]:
    """A stretch of the source with the imported names in it written out."""
    at = start
    for place in sorted(place for place in names if start <= place < end):
        stop, full = names[place]
        yield Piece(module.source[at:place], at)
        yield Piece(full)
        at = stop
    yield Piece(module.source[at:end], at)


def _names(module: RegoModule) -> dict[int, tuple[int, bytes]]:
    """Where imported names of `data` stand, where they end, and what they stand for."""
    found = {}
    for rule in module.rules:
        declared = module.locals(rule.node)
        for used in module.references(rule.node):
            target = module.imports.get(used.root)
            if target is not None and target.root == "data" and used.root not in declared:
                start, end = used.place.start, used.place.start + len(used.root.encode())
                if module.source[start:end] == used.root.encode():
                    found[start] = (end, written(target.fixed).encode())
    return found


# --- heads --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Move:
    """A head's value (a stretch of the source) goes to `insert_at`, between `before` and `after`; the body gets its
    `opening` at `open_at` where it has none."""

    value_start: int
    value_end: int
    open_at: int
    opening: bytes
    insert_at: int
    before: bytes
    after: bytes = b"\n}"


def _moves(module: RegoModule, rule: RegoRule) -> Iterator[_Move]:
    if "Spec" not in rule.node:
        return
    ((kind, head),) = rule.node["Spec"]["head"].items()
    bodies = rule.node["Spec"]["bodies"]
    first = bodies[0] if bodies and not bodies[0]["is_else"] else None
    value = _head_value(module, kind, head)
    if value is not None and not _is_plain(value[1]) and (first is not None or _iterates(value[1])):
        yield _move(module, value[0], head["span"]["end"], first)
    for body in bodies:
        assign = body.get("assign")
        if body["is_else"] and assign and not _is_plain(assign["value"]) and body["query"]["stmts"]:
            yield _move(module, _after_operator(module, assign), assign["span"]["end"], body)


def _head_value(module: RegoModule, kind: str, head: Mapping[str, Any]) -> tuple[int, Any] | None:
    """Where the value of a head starts, and its node."""
    if kind == "Set":
        (refr,) = head["refr"].values()
        found = _CONTAINS.match(module.source, refr["span"]["end"])
        return (found.end(), head["key"]) if found else None
    assign = head.get("assign")
    return (_after_operator(module, assign), assign["value"]) if assign else None


def _after_operator(module: RegoModule, assign: Mapping[str, Any]) -> int:
    start: int = assign["span"]["start"]
    return start + (2 if module.source[start : start + 2] == b":=" else 1)


def _move(module: RegoModule, start: int, end: int, body: Mapping[str, Any] | None) -> _Move:
    before = f"\n{BOUND} := ".encode()
    if body is None:
        return _Move(start, end, end, b" if {", end, before)
    query = body["query"]
    first, last = query["span"]["start"], end_of(query["span"], module.source)
    if query["stmts"][0]["span"]["start"] > first and module.source[first : first + 1] == b"{":
        return _Move(start, end, last - 1, b"", last - 1, before, b"\n")
    return _Move(start, end, first, b"{ ", last, before)


def _is_plain(node: Any) -> bool:
    """Whether a value is made of variables and literals only, so that it is defined wherever they are."""
    return not any(kind in {"RefDot", "RefBrack", "Call"} for kind, _ in nodes(node))


def _iterates(node: Any) -> bool:
    return any(kind == "RefBrack" and "Var" in body["index"] for kind, body in nodes(node))
