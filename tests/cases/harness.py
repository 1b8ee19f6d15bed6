"""Cases as a stand-in plays them: a case's policy becomes rule data and settings, its answers the provider's script.

A case is played only where the folder of cases lies beside the checkout. A test has to look at every check of its
case; what else holds for every one is looked at here: nothing stays reserved, and the provider, which is strict, never
had to refuse a request.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from proxy.core.limits import Amounts
from proxy.core.runs import Run
from proxy.demo import Answer, Call, Raw, ScriptedProvider, Seen
from proxy.stores.memory import MemoryStore
from tests.cases.clients import CHAT, MESSAGES, RESPONSES, Json, Read, read, strictly
from tests.conftest import skip_or_fail
from tests.playbook import (
    CHAT as CHAT_PATH,
    MESSAGES as MESSAGES_PATH,
    RESPONSES as RESPONSES_PATH,
    SHARED,
    Play,
    play,
)

_REPEAT = re.compile(r"\{\{repeat:(.*?),(\d+)\}\}", re.DOTALL)
_DIALECTS = {CHAT_PATH: CHAT, RESPONSES_PATH: RESPONSES, MESSAGES_PATH: MESSAGES}
_MISSING = object()


@dataclass
class Case:
    """One case as written; `holds` marks a check as looked at."""

    id: str
    config: Json
    requests: Any
    upstream: Any
    checks: dict[str, Json]
    unseen: set[str] = field(default_factory=set)

    def holds(self, at: str, actual: object = _MISSING, *, says: bool | None = None) -> None:
        """The check at this place holds of what was found; `says`: whether what it says in words does."""
        self.unseen.discard(at)
        check = self.checks[at]
        if "says" in check:
            assert says, f"{self.id} {at}: {check['says']}"
        else:
            assert says is None or says
        if actual is _MISSING:
            return
        where = f"{self.id} {at}: {actual!r}"
        if "is" in check:
            assert _as_in(check["is"], actual) == check["is"], where
        if "one_of" in check:
            assert any(_as_in(wanted, actual) == wanted for wanted in check["one_of"]), where
        for part in check.get("has", ()):
            assert part in actual, f"{where} lacks {part}"  # type: ignore[operator]  # a text or a mapping
        for part in check.get("lacks", ()):
            assert part not in actual, f"{where} has {part}"  # type: ignore[operator]  # a text or a mapping
        if "min" in check or "max" in check:
            assert check.get("min", actual) <= actual <= check.get("max", actual), where


def _as_in(wanted: object, actual: object) -> object:
    """What was found, with only the members that the check speaks of (ids, where they are given)."""
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        return [
            {key: each[key] for key in one if key in each} if isinstance(one, dict) else each
            for one, each in zip(wanted, actual, strict=True)
        ]
    return actual


def load(number: str) -> Case:
    """The case of this number, e.g. `c001`. Skips where there are no cases."""
    files = sorted((SHARED / "cases").glob(f"{number}-*.yaml"))
    if not files:
        skip_or_fail(f"no case {number} beside the checkout ({SHARED.name}/cases)")
    written = _expanded(yaml.safe_load(files[0].read_text("utf-8")))
    given, checks = written["given"], {check["at"]: check for check in written["expect"]["checks"]}
    return Case(written["id"], given["config"], given["requests"], given["upstream"], checks, set(checks))


def _expanded(value: Any) -> Any:
    """The same with every `{{repeat:TEXT,N}}` written out."""
    if isinstance(value, str):
        return _REPEAT.sub(lambda found: found[1] * int(found[2]), value)
    if isinstance(value, list):
        return [_expanded(each) for each in value]
    return {key: _expanded(each) for key, each in value.items()} if isinstance(value, dict) else value


# --- what a case configures -------------------------------------------------------------------------------------


def rules_of(config: Json) -> Json:
    """Rule data that says what the case's tools and argument rules say."""
    tools = config.get("tools", {})
    org: Json = {}
    if "allow" in tools:
        org["allowed_tools"] = tools["allow"]
    if "deny" in tools:
        org["denied_tools"] = tools["deny"]
    for rule in config.get("argument_rules", ()):
        name, constraint = _constraint(rule["rule"])
        org.setdefault("tools", {})[rule["tool"]] = {"arguments": {name: constraint}}
    return {"org": org}


def _constraint(words: str) -> tuple[str, Json]:
    """An argument rule as the cases word it."""
    name, _, rest = words.partition(" must ")
    if rest.startswith("be one of "):
        return name, {"one_of": rest.removeprefix("be one of ").split(", ")}
    found = re.fullmatch(r"(equal|not match) '(.*)'", rest, re.DOTALL)
    assert found, f"an argument rule that is not known: {words}"
    return name, {{"equal": "equals", "not match": "not_pattern"}[found[1]]: found[2]}


def settings_of(config: Json) -> Json:
    """Settings for the case's brakes and budgets, as keywords of `play`.

    Three blocked calls of a tool end a run: the third is refused as the one that insists, so two come before it.
    """
    loop, budgets = config.get("loop", {}), config.get("budgets", {})
    said = {
        "same_call_nudge": None if loop else _MISSING,
        "same_call_stop": loop.get("same_call_same_result", _MISSING),
        "same_result_stop": loop.get("same_tool_same_result", _MISSING),
        "insisted_refusals": loop.get("blocked_calls_per_tool", 0) - 1
        if "blocked_calls_per_tool" in loop
        else _MISSING,
    }
    limits = {
        "calls": budgets.get("tool_calls", _MISSING),
        "per_tool": budgets.get("per_tool", _MISSING),
        "rounds": budgets.get("model_requests", _MISSING),
        "total_tokens": budgets.get("tokens", _MISSING),
    }
    found = {f"limits__brakes__{name}": value for name, value in said.items()}
    found |= {f"limits__run__{name}": value for name, value in limits.items()}
    found["checks__max_argument_depth"] = config.get("limits", {}).get("json_depth", _MISSING)
    found["upstream__retries"] = config.get("retry", {}).get("upstream_overload", _MISSING)
    return {name: value for name, value in found.items() if value is not _MISSING}


# --- what the provider says -------------------------------------------------------------------------------------


def raw_of(answer: Json, *, cuts: Any = None) -> Raw:
    """The case's answer, byte for byte. `cuts`: other places than the case's own."""
    headers = dict(answer["headers"])
    body = text_of(answer)
    if headers.get("content-encoding") == "gzip":
        body = gzip.compress(body)
    where = tuple(answer.get("split_bytes", ()) if cuts is None else cuts)
    return Raw(body, answer["status"], headers, cuts=where)


def text_of(answer: Json) -> bytes:
    """The body of a case's answer."""
    if "sse" in answer:
        return str(answer["sse"]).encode()
    if "body_raw" in answer:
        return str(answer["body_raw"]).encode("latin-1")
    return compact(answer["body"])


def compact(body: object) -> bytes:
    """JSON without white space."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def told_of(dialect: str, answer: Json) -> Answer:
    """The same turn, to be rendered streamed or whole as the request asks."""
    found = strictly(dialect, answer["status"], answer["headers"], text_of(answer))
    return Answer(found.text, tuple(Call(call.name, call.raw, call.id) for call in found.calls))


# --- playing ----------------------------------------------------------------------------------------------------


class Stage:
    """A case being played."""

    def __init__(self, case: Case, played: Play) -> None:
        self.case = case
        self.play = played
        self._runs = 0

    @property
    def provider(self) -> ScriptedProvider:
        """The provider's stand-in."""
        return self.play.provider

    @property
    def seen(self) -> list[Seen]:
        """What the provider saw."""
        return self.play.provider.seen

    @property
    def store(self) -> MemoryStore:
        """Where the runs are kept."""
        store = self.play.callgate.parts.ledger._store
        while not isinstance(store, MemoryStore):
            store = store._store  # type: ignore[attr-defined]  # a watch around it
        return store

    def fresh(self) -> dict[str, str]:
        """Headers of a caller that was never here before: a run of its own, with fresh state."""
        self._runs += 1
        return {"authorization": f"Bearer caller-{self._runs}"}

    def tell(
        self, answer: Json, *, stream: bool | None = None, dialect: str = CHAT, cuts: Any = None
    ) -> None:
        """The provider's next answer. As given, byte for byte, if it is streamed or not as asked here; else the same
        turn in the other manner."""
        is_given = stream is None or stream == ("sse" in answer)
        self.provider.script(raw_of(answer, cuts=cuts) if is_given else told_of(dialect, answer))

    async def send(
        self,
        request: Json,
        headers: Mapping[str, str] | None = None,
        *,
        filled: object = None,
        stream: bool | None = None,
    ) -> Read:
        """Sends a case's request. `filled` stands where the case leaves open what came before; `stream`: whether the
        answer is to be streamed, if otherwise than in the case."""
        body: Any = (
            request["body_raw"].encode() if "body_raw" in request else _filled(request["body"], filled)
        )
        if stream is not None:
            body = body | {"stream": stream}
        path = request["path"]
        answered = await self.play.post(
            path,
            body if isinstance(body, bytes) else compact(body),
            {**request.get("headers", {}), **(headers or {})},
        )
        return read(_DIALECTS[path], answered.status, answered.headers, answered.body)

    def run(self, found: Read) -> Run:
        """The run that an answer belongs to, as it stands now."""
        run: Run = self.store._runs[found.run]
        return run

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        return sorted(self.store._runs.values(), key=lambda run: run.started_at)

    def spent(self) -> Amounts:
        """What all runs have spent together."""
        return sum((run.spent for run in self.runs()), Amounts())

    async def decisions(self, found: Read | None = None) -> list[Json]:
        """The proxy's records, one a call; of one run only."""
        return [entry for entry in await self.play.decisions() if found is None or entry["run"] == found.run]

    async def flagged(self, found: Read) -> list[str]:
        """The codes of all that was said about missing progress in a run, notes to the model included."""
        return [
            verdict["code"]
            for record in await self.play.records("decision")
            if record["kind"] == "decision" and record["run"] == found.run
            for verdict in record["verdicts"]
            if verdict["reason_class"] in {"loop", "no_progress"}
        ]

    async def settled(self) -> None:
        """Waits until nothing is reserved any more."""
        async with asyncio.timeout(5):
            while self.store._reserved:  # noqa: ASYNC110 (a store offers nothing to wait for)
                await asyncio.sleep(0)


def _filled(value: Any, open_: object) -> Any:
    """The same with `open_` where the case says only in words what stands there."""
    if isinstance(value, str) and value.startswith("{{") and value.endswith("}}"):
        assert open_ is not None, value
        return open_
    if isinstance(value, list):
        return [_filled(each, open_) for each in value]
    return {key: _filled(each, open_) for key, each in value.items()} if isinstance(value, dict) else value


@asynccontextmanager
async def staged(
    number: str, tmp_path: Path, rules: Mapping[str, object] | None = None, **settings: object
) -> AsyncIterator[Stage]:
    """Plays a case; what is said here goes before what the case configures.

    By default a refused call is not asked about again: the case's next answer is for its next request.
    """
    case = load(number)
    chosen: Json = {"reask__per_turn": 0} | settings_of(case.config) | settings
    async with play(tmp_path, rules_of(case.config) if rules is None else rules, **chosen) as played:
        stage = Stage(case, played)
        yield stage
        await stage.settled()
        assert [seen.refused for seen in stage.seen if seen.refused] == []
        assert case.unseen == set(), "checks that the test did not look at"
