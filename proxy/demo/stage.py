"""The stage: a scripted provider, Callgate in front of it, and everything that can be seen of a scene played on it.

All of it is real and on loopback: wire formats, policies, telemetry, the audit journal. Only the model is an actor.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.assembly import Running, running
from proxy.audit import read_journal
from proxy.audit_records import DecisionRecord, EditRecord, Record, RunEndRecord
from proxy.demo.agents import Played, Sdk, play_agent
from proxy.demo.answers import Answer
from proxy.demo.provider import ScriptedProvider, Seen
from proxy.demo.shop import CUSTOMER, Shop
from proxy.demo.talk import Talk
from proxy.demo.trace_tree import TracedSpan, traced
from proxy.dialects import DIALECTS
from proxy.settings import Settings, setting_name
from proxy.telemetry import Telemetry, span_memory

if TYPE_CHECKING:
    from proxy.demo.scenes import Scene

RULES = Path(__file__).parent / "rules.yaml"
AGENT = "refund_bot"
AGENT_KEY = "key-of-the-refund-bot"
"""What the agent shows to Callgate. It says who calls, and never reaches the provider."""
PROVIDER_KEY = "key-for-the-provider"

Model = Callable[[Talk], Answer]


@dataclass(frozen=True)
class Performance:
    """A scene as one SDK's agent played it: both ends of the wire, and what Callgate wrote down."""

    scene: Scene
    sdk: str
    shop: Shop
    played: Played
    seen: Sequence[Seen]
    """What reached the provider."""
    records: Sequence[Record]
    """The audit journal."""
    spans: Sequence[TracedSpan]
    """The trace."""

    @property
    def text(self) -> str:
        """The final answer."""
        return self.played.said[-1] if self.played.said else ""

    @property
    def received(self) -> bytes:
        """Every byte that the agent got."""
        return b"".join(bytes(got.body) for got in self.played.replies)

    @cached_property
    def talks(self) -> list[Talk]:
        """What the model had before it, round by round."""
        return [Talk.of(seen) for seen in self.seen]

    @cached_property
    def decisions(self) -> list[DecisionRecord]:
        """Every judgement, in order."""
        return [record for record in self.records if record["kind"] == "decision"]

    @cached_property
    def edits(self) -> list[EditRecord]:
        """Every change to a request, in order."""
        return [record for record in self.records if record["kind"] == "request_edit"]

    @cached_property
    def end(self) -> RunEndRecord | None:
        """How the run ended."""
        ends = [record for record in self.records if record["kind"] == "run_end"]
        return ends[-1] if ends else None

    @property
    def released(self) -> list[str]:
        """Ids of the calls that the agent was to get."""
        return [call["call_id"] for each in self.decisions for call in each["calls"] if call["released"]]

    @property
    def refused(self) -> list[str]:
        """Ids of the calls that it was not to get."""
        return [call["call_id"] for each in self.decisions for call in each["calls"] if not call["released"]]


class Stage:
    """Plays scenes, one after the other."""

    def __init__(
        self,
        provider: ScriptedProvider,
        callgate: Running,
        spans: Callable[[], Sequence[object]],
        journal: Path,
        pace: float,
    ) -> None:
        """`on_stage` makes one."""
        self.provider = provider
        self.callgate = callgate
        self._spans = spans
        self._journal = journal
        self._pace = pace

    async def play(self, scene: Scene, sdk: Sdk) -> Performance:
        """Plays a scene with this SDK's agent."""
        shop = Shop(scene.timeouts, pace=self._pace * 10)
        self.provider.seen.clear()
        self.provider.respond(_actor(scene.model, self._pace))
        played = await play_agent(sdk, self.callgate.url, AGENT_KEY, scene.user, shop)
        await self.callgate.flush_audit()
        runs = {got.headers.get("x-callgate-run", "") for got in played.replies}
        return Performance(
            scene=scene,
            sdk=sdk.name,
            shop=shop,
            played=played,
            seen=tuple(self.provider.seen),
            records=[
                each for each in read_journal(self._journal) if each["kind"] != "lost" and each["run"] in runs
            ],
            spans=[
                each for each in map(traced, self._spans()) if each.attributes.get("callgate.run.id") in runs
            ],
        )


def _actor(model: Model, pace: float) -> Callable[[Seen], Answer]:
    def speak(seen: Seen) -> Answer:
        said = model(Talk.of(seen))
        return Answer(
            said.text, said.calls, usage=(len(seen.body) // 4, 10 + len(said.text) // 4), delay=pace
        )

    return speak


def settings_of(provider_url: str, journal: Path) -> Settings:
    """The demo's settings: what an operator would write into callgate.yaml."""
    names = [setting_name(dialect.name) for dialect in DIALECTS]
    key = {
        "name": "refund-bot",
        "hash": f"sha256:{hashlib.sha256(AGENT_KEY.encode()).hexdigest()}",
        "agent": AGENT,
        "user": CUSTOMER,
        "credentials": dict.fromkeys(names, PROVIDER_KEY),
    }
    return Settings.model_validate(
        {
            "listen": {"port": 0},
            "admin": {"port": 0},
            "audit": {"path": str(journal)},
            "identity": {"api_keys": [key], "anonymous": "refuse"},
            "policy": {"data": str(RULES)},
            "upstream": {name: {"base_url": provider_url} for name in names},
        }
    )


@asynccontextmanager
async def on_stage(pace: float = 0.0) -> AsyncIterator[Stage]:
    """Sets the stage up on free ports and takes it down. `pace`: seconds between the provider's stream events."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "audit.jsonl"
        spans = span_memory()
        async with ScriptedProvider() as provider:
            settings = settings_of(provider.url, journal)
            telemetry = Telemetry.from_environment(settings.telemetry, span_exporter=spans)
            async with running(settings, telemetry=telemetry) as callgate:
                yield Stage(provider, callgate, spans.get_finished_spans, journal, pace)
