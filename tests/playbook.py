"""A test as a script: what the provider will say, what policy data holds, what the agent sends; then look.

Everything is real: the proxy listens on loopback, the provider stand-in speaks the wire formats, policies are
evaluated by the engine. Only the clock can be a fake.
"""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from proxy.assembly import Running, running
from proxy.audit import read_journal
from proxy.config import load_settings
from proxy.demo import ScriptedProvider
from proxy.dialects import DIALECTS
from proxy.settings import setting_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from proxy.audit_records import Record
    from proxy.engines import Policies
    from proxy.telemetry import Telemetry

SHARED = Path(__file__).parent.parent.parent / "shared"
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
REFUSING = ("reask", "finish", "deny")
"""Actions that refuse a call, weakest first."""


@dataclass(slots=True)
class Answered:
    """One HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of a stream's events, decoded; `[DONE]` as text."""
        blocks = self.body.replace(b"\r\n", b"\n").split(b"\n\n")
        lines = [
            line[5:].strip() for block in blocks for line in block.split(b"\n") if line.startswith(b"data:")
        ]
        return ["[DONE]" if line == b"[DONE]" else json.loads(line) for line in lines]


@dataclass(slots=True)
class Play:
    """A running Callgate in front of a scripted provider."""

    provider: ScriptedProvider
    callgate: Running
    http: aiohttp.ClientSession
    journal: Path
    headers: dict[str, str] = field(default_factory=lambda: {"anthropic-version": "2023-06-01"})

    @property
    def url(self) -> str:
        """Where an agent points its base URL."""
        return self.callgate.url

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answered:
        """Sends a request (bytes as they are, anything else as compact JSON) and reads the whole answer."""
        raw = (
            body
            if isinstance(body, bytes)
            else json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        )
        sent = {"content-type": "application/json", **self.headers, **(headers or {})}
        async with self.http.post(self.url + path, data=raw, headers=sent) as answer:
            return Answered(answer.status, answer.headers, await answer.read())

    async def records(self, kind: str) -> list[Record]:
        """The audit records of this kind so far."""
        await self.callgate.flush_audit()
        return [record for record in read_journal(self.journal) if record["kind"] == kind]

    async def decisions(self) -> list[dict[str, Any]]:
        """One entry a judged call, in order: run, tool, arguments (as shown in records), outcome (allow or block), the
        codes and classes of verdicts, and the class of the one that refuses the call (empty: none does)."""
        found: list[dict[str, Any]] = []
        for record in await self.records("decision"):
            if record["kind"] != "decision" or record["phase"] != "calls":
                continue
            for place, call in enumerate(record["calls"]):
                about = [
                    verdict
                    for verdict in record["verdicts"]
                    if verdict["call"] in {place, None} and verdict["mode"] == "enforce"
                ]
                acting = [verdict for verdict in about if verdict["action"] in REFUSING]
                worst = max(acting, key=lambda verdict: REFUSING.index(verdict["action"]), default=None)
                found.append(
                    {
                        "run": record["run"],
                        "tool": call["tool"],
                        "arguments": call["arguments"],
                        "outcome": "allow" if call["released"] else "block",
                        "codes": [verdict["code"] for verdict in about],
                        "classes": [verdict["reason_class"] for verdict in about],
                        "reason_class": worst["reason_class"] if worst else "",
                    }
                )
        return found


@asynccontextmanager
async def play(
    tmp_path: Path,
    rules: Mapping[str, object] | None = None,
    *,
    provider: ScriptedProvider | None = None,
    clock: Callable[[], float] = time.time,
    telemetry: Telemetry | None = None,
    policies: Policies | None = None,
    **settings: object,
) -> AsyncIterator[Play]:
    """Starts a provider and a Callgate in front of it.

    `rules`: policy data (profile, org, teams, agents); `policies`: already open ones instead. `settings`: by dotted name with `__` for the dots.
    """
    journal = tmp_path / "audit.jsonl"
    overrides: dict[str, object] = {
        "listen.port": 0,
        "admin.port": 0,
        "audit.path": str(journal),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    if rules is not None:
        file = tmp_path / "rules.yaml"
        file.write_text(yaml.safe_dump(dict(rules)))
        overrides["policy.data"] = str(file)
    async with provider or ScriptedProvider() as scripted, aiohttp.ClientSession() as http:
        for dialect in DIALECTS:
            overrides.setdefault(f"upstream.{setting_name(dialect.name)}.base_url", scripted.url)
        loaded = load_settings(overrides=overrides, environment={})
        async with running(loaded, clock=clock, telemetry=telemetry, policies=policies) as callgate:
            yield Play(scripted, callgate, http, journal)
