"""The four things that can break. What is *decided* is a verdict and never one of these.

Each carries a status hint and a text that is safe to show to a stranger. Only `gate.py` and `server.py`
turn a fault into an answer; foreign exceptions become faults where they enter.
"""

from __future__ import annotations


class Fault(Exception):
    """Something broke. Use one of the four below."""

    status = 500
    code = "fault"

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        """`message` is shown to the caller: no secrets, no addresses of ours."""
        super().__init__(message)
        self.message = message
        self.status = status or self.status
        self.code = code or self.code


class ClientFault(Fault):
    """The agent's request cannot be read, or may not be made."""

    status = 400
    code = "invalid_request"


class UpstreamFault(Fault):
    """The provider cannot be reached, or its answer cannot be read."""

    status = 502
    code = "upstream_error"


class EngineFault(Fault):
    """The policy engine failed, timed out, or gave something that is no decision."""

    status = 503
    code = "policy_error"


class StoreFault(Fault):
    """Run state cannot be read or written."""

    status = 503
    code = "state_unavailable"
