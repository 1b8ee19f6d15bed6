"""The admin port's routes for people who approve calls: list, look, approve, reject. All of them need the token.

Every answer is JSON; an error is `{"error": "…", "code": "…"}`. A decision is `{"by": "…", "reason": "…"}`. The same
decision again changes nothing and is answered alike; the opposite one, or one that comes too late, is a conflict.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiohttp import web

from .approval_json import shown, written
from .core.approvals import ApprovalStatus, Word, agrees
from .errors import ClientFault, Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .approving import Approvals
    from .redaction import Redactor

MOST_BYTES = 16_384
BY_LENGTH = 200
REASON_LENGTH = 1_000
MOST_LISTED = 1_000
ARGUMENTS_LISTED = 500
"""Characters of arguments in the list."""


def approval_routes(approvals: Approvals, redactor: Redactor) -> list[web.RouteDef]:
    """The routes, for `build_admin`."""

    async def listed(request: web.Request) -> web.Response:
        wanted = request.query.get("status", "")
        if wanted and wanted not in set(ApprovalStatus):
            raise ClientFault(f"There is no such status. There are {', '.join(ApprovalStatus)}.")
        found = [each for each in await approvals.listed() if wanted in {"", each.status.value}]
        shown_ones = [shown(each, redactor, ARGUMENTS_LISTED) for each in found[:MOST_LISTED]]
        return _json({"approvals": shown_ones, "left_out": len(found) - len(shown_ones)})

    async def one(request: web.Request) -> web.Response:
        approval = await approvals.find(request.match_info["id"])
        if approval is None:
            raise _unknown()
        return _json(shown(approval, None))

    async def decide(request: web.Request) -> web.Response:
        approve = request.match_info["word"] == "approve"
        by, reason = await _decision(request)
        approval = await approvals.decide(request.match_info["id"], approve=approve, by=by, reason=reason)
        if approval is None:
            raise _unknown()
        if not agrees(approval, Word(approve, by)):
            raise ClientFault(_conflict(approval.status, approval.decided_by), status=409, code="conflict")
        return _json(shown(approval, redactor))

    return [
        web.get("/approvals", _told(listed)),
        web.get("/approvals/{id}", _told(one)),
        web.post("/approvals/{id}/{word:approve|reject}", _told(decide)),
    ]


def _told(
    answer: Callable[[web.Request], Awaitable[web.Response]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Faults as JSON."""

    async def told(request: web.Request) -> web.Response:
        try:
            return await answer(request)
        except Fault as fault:
            return _json({"error": fault.message, "code": fault.code}, fault.status)

    return told


def _json(said: object, status: int = 200) -> web.Response:
    return web.Response(
        body=written(said),
        status=status,
        content_type="application/json",
        headers={"cache-control": "no-store"},
    )


def _unknown() -> ClientFault:
    return ClientFault("There is no approval with this id.", status=404, code="unknown_approval")


def _conflict(status: ApprovalStatus, by: str) -> str:
    if status is ApprovalStatus.EXPIRED:
        return "This came too late: the approval has expired, and the call counts as refused."
    return f"This was decided otherwise before: {status.value} by {by}."


async def _decision(request: web.Request) -> tuple[str, str]:
    """Who decides, and why. Raises ClientFault."""
    if request.content_type != "application/json":
        # A page in an operator's browser cannot send this type to another host unasked.
        raise ClientFault("Send JSON: content-type: application/json.", status=415, code="unsupported_type")
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        body = None
    if body is None or len(body) > MOST_BYTES:
        raise ClientFault("The body is too long.", status=413, code="request_too_large")
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise ClientFault("The body is not JSON.") from None
    if not isinstance(said, dict) or said.keys() - {"by", "reason"}:
        raise ClientFault('The body should be {"by": "who decides", "reason": "why"}.')
    return (
        _text(said.get("by", ""), "by", BY_LENGTH, needed=True),
        _text(said.get("reason", ""), "reason", REASON_LENGTH, needed=False),
    )


def _text(value: object, name: str, most: int, *, needed: bool) -> str:
    """One line that can be shown anywhere. Raises ClientFault."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > most:
        raise ClientFault(f"`{name}` should be one line of at most {most} characters.")
    if needed and not value.strip():
        raise ClientFault(f"`{name}` is missing: who decides?")
    return value.strip()
