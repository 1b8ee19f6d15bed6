"""Policies for tests: written into a folder, loaded, and asked in this process."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from proxy.core.messages import Message, Request, Role, Tool, ToolCall
from proxy.core.names import fold_name
from proxy.core.runs import Identity, Run
from proxy.core.verdicts import Decision
from proxy.engines import Bundle, Held, Policies, PolicySettings, load_bundle, open_policies
from proxy.engines.fetching import BundleSource
from proxy.engines.marked import Marked
from proxy.engines.opa_wire import OpaServer
from proxy.engines.rules import RuleData, checked, fold_names, merged
from proxy.engines.worker import Evaluator

RULE = "data.callgate.main.decision"
IDENTITY = Identity(team="blue", agent="bot", user="ann")
REQUEST = Request("test", "m", (Message(Role.USER, "Order A1, please."),), (Tool("read"), Tool("write")))
RUN = Run("r", "k", 1.0)
GOOD: dict[str, object] = {
    "deny": [],
    "allowed_tools": None,
    "limits": {},
    "tools": {},
    "shadow": [],
    "approvals": [],
    "cited": [],
}


@dataclass
class ScriptedEngine:
    """Gives what it is told to, and remembers what it was asked."""

    answer: object
    asked: list[Mapping[str, object]] = field(default_factory=list)
    revision: str = "r1"
    closed: bool = False

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """What it was told to give or to raise."""
        self.asked.append(document)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # whatever it was told

    async def close(self) -> None:
        """Notes that it was closed."""
        self.closed = True


@dataclass
class Configured:
    """What is configured about policies, as the settings tree has it."""

    folders: tuple[Path, ...] = ()
    data: Path | None = None
    profile: Literal["starter", "strict"] = "starter"
    deadline_seconds: float = 1.0
    workers: int = 1
    opa_server: OpaServer | None = None
    bundle_source: BundleSource | None = None


@asynccontextmanager
async def opened(settings: PolicySettings) -> AsyncIterator[Policies]:
    """The policies in a real engine, closed in the end."""
    policies = await open_policies(settings)
    try:
        yield policies
    finally:
        await policies.close()


async def policy_says(policies: Policies | Held, name: str = "read", **arguments: object) -> Decision:
    """What is decided about one call of this tool."""
    held = policies.hold() if isinstance(policies, Policies) else policies
    try:
        call = ToolCall("c", name, "{}")
        return await held.decide("calls", IDENTITY, REQUEST, RUN, [call], [arguments], now=2.0)
    finally:
        if held is not policies:
            held.let_go()


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """The folder with these files in it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def team_rule(body: str, *, name: str = "blue") -> dict[str, str]:
    """A folder's files with the rules of one team."""
    return {f"callgate/team/{name}/rules.rego": f"package callgate.team.{name}\n\n{body}\n"}


def evaluator_of(bundle: Bundle) -> Evaluator:
    """The embedded engine with these policies, without a process."""
    return Evaluator({file: module.text for file, module in bundle.embedded.items()}, bundle.data)


@cache
def shipped() -> Bundle:
    """The policies of the product."""
    return load_bundle([])


def with_rules(rules: Mapping[str, Any]) -> Evaluator:
    """The embedded engine with the shipped policies and this rule data. Quicker than loading a bundle each time."""
    tree, faults = checked(Marked("rules", rules), RuleData)
    assert not faults, faults
    data = merged([shipped().data["rules"], tree])
    fold_names(data)
    return evaluator_of(replace(shipped(), data={"rules": data}))


def decided(evaluator: Evaluator, question: Mapping[str, Any]) -> Any:
    """The decision document."""
    return json.loads(evaluator.evaluate(RULE, json.dumps(question)))


def asked(name: str = "read", arguments: object = None, **changes: Any) -> dict[str, Any]:
    """An input document: one call of a tool that is offered, by an agent `bot` of the team `blue`."""
    tools = [{"name": each, "folded": fold_name(each), "hosted": False} for each in {name, "read", "write"}]
    call = {
        "index": 0,
        "id": "c0",
        "name": name,
        "folded": fold_name(name),
        "kind": "function",
        "hosted": False,
    }
    base = {
        "phase": "calls",
        "now_ns": 1_790_000_000_000_000_000,
        "identity": {
            "organisation": "acme",
            "team": "blue",
            "agent": "bot",
            "user": "ann",
            "roles": [],
            "claims": {},
        },
        "request": {"dialect": "test", "model": "m", "stream": False, "declared_tools": []},
        "task": {"user_text": "go", "user_texts": ["go"], "folded": "go"},
        "tools": sorted(tools, key=lambda tool: str(tool["name"])),
        "run": {"id": "r", "steps": []},
        "calls": [call | {"arguments": {} if arguments is None else arguments}],
    }
    return base | changes


def codes(decision: Mapping[str, Any]) -> list[str]:
    """The codes of what is denied, sorted."""
    return sorted(denial["code"] for denial in decision["deny"])
