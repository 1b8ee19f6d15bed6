"""Which engine evaluates: the embedded one, or an OPA server. Either is started once for each bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .bundle import Bundle
from .embedded import EmbeddedEngine, EmbeddedSettings
from .opa import OpaEngines
from .opa_wire import OpaServer

if TYPE_CHECKING:
    from . import Engine

FOREIGN = Bundle(
    modules={},
    data={"rules": {"profile": "server", "org": {}, "teams": {}, "agents": {}}},
    revision="server",
    embedded={},
    result_readers=frozenset({"org"}),
)
"""What is known of policies that an OPA server has by itself: nothing, so results are always given to them."""


class Engines(Protocol):
    """Starts engines of one kind, which may share something: it is closed after all of them."""

    @property
    def trouble(self) -> str:
        """Why nothing can be decided at the moment; empty: nothing is known against it."""

    async def start(self, bundle: Bundle) -> Engine:
        """An engine that has loaded this bundle. Raises EngineFault where it does not load."""

    async def close(self) -> None:
        """Frees what they share."""


@dataclass(frozen=True, slots=True)
class EmbeddedEngines:
    """Each in worker processes of its own."""

    settings: EmbeddedSettings

    @property
    def trouble(self) -> str:
        """Lost workers are replaced."""
        return ""

    async def start(self, bundle: Bundle) -> Engine:
        """As `EmbeddedEngine.start`."""
        return await EmbeddedEngine.start(bundle, self.settings)

    async def close(self) -> None:
        """Nothing is shared."""


def engines_of(server: OpaServer | None, workers: int, deadline: float) -> Engines:
    """Engines on this server; without one the embedded kind, with so many workers and seconds for a decision."""
    if server is not None:
        return OpaEngines(server)
    return EmbeddedEngines(EmbeddedSettings(workers=workers, deadline=deadline))
