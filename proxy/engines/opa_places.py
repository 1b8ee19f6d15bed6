"""What one engine keeps on an OPA server: put there whole, and taken away when nobody uses it.

Proxies may share a server, and those with equal policies share one copy. So whoever uses a copy says so there
(`data.callgate_uses.<name>.<user>`, with the time until which that holds) and renews it; what nobody uses any more is
taken away by whoever comes by. Where that goes wrong, decisions are undefined, never by half a bundle, and the copy is
put there again.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from proxy.errors import EngineFault

from .namespaces import Namespaced
from .opa_wire import OpaClient, Refused, ServerFault

_LOG = logging.getLogger(__name__)
_USES = "callgate_uses"
LEASE = 3600.0
"""Seconds that a copy is kept for a user who has not renewed."""
_RENEWAL = LEASE / 3
_GONE = 404
_NAME = re.compile("callgate_[0-9a-f]{16}")


class OpaPlace:
    """The copy of one bundle on the server, and one user of it."""

    def __init__(
        self, client: OpaClient, space: Namespaced, writing: asyncio.Lock, wall: Callable[[], float]
    ) -> None:
        """`writing`: held while this process changes what is on the server. `wall`: epoch seconds."""
        self._client = client
        self._space = space
        self._writing = writing
        self._wall = wall
        self._user = uuid.uuid4().hex
        self._renew_at = 0.0

    @property
    def decision(self) -> str:
        """Path of the decision, with slashes."""
        return f"{self._space.name}/decision"

    # --- using ---

    async def put(self) -> None:
        """Puts everything there, unless it is. Raises ServerFault, or EngineFault with places for what OPA refuses."""
        async with self._writing:
            await self._renew()
            if await self._client.read(f"{self._space.name}/is_there"):
                return
            await self._client.update_or_create_data(dict(self._space.rules), f"{self._space.name}/rules")
            await self._client.update_policy_from_string(
                self._space.text, self._space.name, rego_compat=False
            )

    def is_renewal_due(self) -> bool:
        """Whether it should be said again that the copy is used."""
        return self._wall() >= self._renew_at

    async def renew(self) -> None:
        """Says that the copy is used. Raises ServerFault."""
        async with self._writing:
            await self._renew()

    async def _renew(self) -> None:
        now = self._wall()
        self._renew_at = now + _RENEWAL
        await self._client.update_or_create_data(
            {"until": now + LEASE}, f"{_USES}/{self._space.name}/{self._user}"
        )

    # --- leaving ---

    async def leave(self) -> None:
        """The copy is not used any more by this one: takes away what nobody uses. Raises ServerFault."""
        async with self._writing:
            unused = _unused(await self._client.read(_USES), self._wall(), self._space.name, self._user)
            for name in unused:
                _LOG.info("nobody uses the policies %s on the OPA server any more", name)
                with suppress(Refused):
                    await self._client.delete_policy(name)
                await self._delete_data(name)
                await self._delete_data(f"{_USES}/{name}")
            if self._space.name not in unused:
                await self._delete_data(f"{_USES}/{self._space.name}/{self._user}")

    async def _delete_data(self, path: str) -> None:
        try:
            await self._client.delete_data(path)
        except Refused as refusal:
            if refusal.http != _GONE:
                raise

    # --- telling ---

    def told(self, refusal: Refused) -> str:
        """What the server says is wrong, with the places of the files as they were written."""
        return "\n".join(self._lines(refusal)) or refusal.message

    def explained(self, fault: ServerFault) -> EngineFault:
        """The fault of putting: what the server does not take of the policies is a fault of theirs."""
        return EngineFault(self.told(fault)) if isinstance(fault, Refused) and fault.errors else fault

    def _lines(self, refusal: Refused) -> Iterator[str]:
        for said in refusal.errors[:20]:
            file, line, column = self._space.place(said.line, said.column)
            place = f"{file}:{line}:{column}: " if file and said.file == self._space.name else ""
            yield f"{place}{self._space.as_written(said.message)}"


def _unused(said: object, now: float, own: str, user: str) -> list[str]:
    """The copies that nobody uses at this time, but for this user of its own one."""
    uses: Mapping[str, Any] = said if isinstance(said, dict) else {}
    found = []
    for name, users in uses.items():
        others = {key: use for key, use in users.items() if key != user} if isinstance(users, dict) else {}
        # An empty one is being put there, or is what a removal left: its user says so soon.
        is_left = bool(users) or name == own
        if _NAME.fullmatch(name) and is_left and not any(_until(use) > now for use in others.values()):
            found.append(name)
    return found


def _until(use: object) -> float:
    until = use.get("until") if isinstance(use, dict) else None
    return float(until) if isinstance(until, int | float) else 0.0
