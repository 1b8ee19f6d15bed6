"""Policies that stay open from test to test: loading them takes longer than most tests."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import yaml

from proxy.engines import open_policies
from proxy.policy_settings import Policy
from tests.playbook import Play, play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path
    from typing import Self

    from proxy.engines import Policies


class Shelf:
    """Plays on open policies. Use as an async context manager, in the event loop of the tests.

    Nothing but policies is shared: state, provider and journal are each play's own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, Policies] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def policies(self, rules: Mapping[str, object]) -> Policies:
        """Open policies with this rule data."""
        key = json.dumps(rules, sort_keys=True)
        if key not in self._open:
            file = self._folder / f"rules{len(self._open)}.yaml"
            file.write_text(yaml.safe_dump(dict(rules)))
            # Many tests on few cores: a decision may take longer than where it matters.
            opened = await open_policies(Policy(data=file, deadline_seconds=20))
            self._stack.push_async_callback(opened.close)
            self._open[key] = opened
        return self._open[key]

    @asynccontextmanager
    async def play(
        self, tmp_path: Path, rules: Mapping[str, object] | None = None, **settings: Any
    ) -> AsyncIterator[Play]:
        """As `tests.playbook.play`."""
        async with play(tmp_path, policies=await self.policies(rules or {}), **settings) as stage:
            yield stage
