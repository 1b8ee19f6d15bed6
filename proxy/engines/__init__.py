"""Only here is Rego evaluated. An engine takes one input document and returns one decision document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .bundle import Bundle, BundleFault, load_bundle
from .findings import LintFault, Severity
from .opa_bundle import opa_bundle
from .policies import Description, Held, Policies, PolicySettings, open_policies
from .rego_tests import RegoTest, TestChoice, TestRun, examined, run_policy_tests

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Bundle",
    "BundleFault",
    "Description",
    "Engine",
    "Held",
    "LintFault",
    "Policies",
    "PolicySettings",
    "RegoTest",
    "Severity",
    "TestChoice",
    "TestRun",
    "examined",
    "load_bundle",
    "opa_bundle",
    "open_policies",
    "run_policy_tests",
]


class Engine(Protocol):
    """Evaluates `data.callgate.main.decision` under one bundle; others get another engine."""

    @property
    def revision(self) -> str:
        """Identifies the loaded policies and data (a content hash)."""

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """The decision document for this input document.

        Raises EngineFault on error, undefined, time-out; never returns a partial decision.
        """

    async def close(self) -> None:
        """Frees what the engine holds. Decisions under way fail with EngineFault."""
