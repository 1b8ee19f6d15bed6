"""Newer policies in a Callgate that serves: looked for, put in force, and told about."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.admin import Readiness
from proxy.engines import open_policies
from proxy.policy_reloading import LONGEST_PAUSE, Reloading
from proxy.policy_settings import Policy
from tests.asked import team_rule, written
from tests.bundle_server import bundle_server
from tests.engines.test_origins import packed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@dataclass
class Stage:
    """A Reloading whose time stands still."""

    now: float = 1000.0
    results: list[str] = field(default_factory=list)
    readiness: Readiness = field(default_factory=Readiness)

    def policies_reloaded(self, result: str, revision: str) -> None:
        """Noted."""
        assert revision
        self.results.append(result)

    @asynccontextmanager
    async def reloading(self, **settings: Any) -> AsyncIterator[Reloading]:
        """Over really open policies."""
        policy = Policy.model_validate(settings)
        policies = await open_policies(policy)
        try:
            yield Reloading(policies, policy, self.readiness, self, lambda: self.now, lambda: 0.5)
        finally:
            await policies.close()


def rule(folder: Path, code: str) -> Path:
    return written(folder, team_rule(f'deny contains {{"code": "{code}", "message": "m"}}'))


async def test_a_changed_folder_is_in_force_once_it_is_the_same_at_two_looks(tmp_path: Path) -> None:
    """C034: a file may be half written."""
    stage = Stage()
    async with stage.reloading(folders=(rule(tmp_path, "one"),)) as reloading:
        first = reloading.policies.revision
        await reloading.look()
        rule(tmp_path, "tw")
        await reloading.look()
        rule(tmp_path, "two")
        await reloading.look()
        assert reloading.policies.revision == first
        stage.now = 1005.0
        await reloading.look()
        second = reloading.policies.revision
        assert (second != first, reloading.since) == (True, 1005.0)

        written(tmp_path, team_rule("deny contains {"))
        for _ in range(4):
            await reloading.look()
        assert reloading.policies.revision == second
        assert "rules.rego:4" in stage.readiness.notes["policy"]

        rule(tmp_path, "two")
        for _ in range(2):
            await reloading.look()

    assert stage.readiness.notes == {}
    assert stage.results == ["loaded", "loaded", "refused", "unchanged"]


async def test_a_server_is_asked_when_it_is_time_and_more_rarely_while_it_fails(tmp_path: Path) -> None:
    """C034: what is in force stays, and the fault is told."""
    stage = Stage()
    async with bundle_server(packed(tmp_path, "one")) as server:
        settings = {"bundle": {"url": server.url, "poll_seconds": 60}, "watch_seconds": 0}
        async with stage.reloading(**settings) as reloading:
            first = reloading.policies.revision
            assert reloading.pause == 60.0
            await reloading.look()
            assert server.given == [200]

            stage.now += 60
            await reloading.look()
            assert server.given == [200, 304]

            server.status = 503
            pauses = []
            for _ in range(6):
                stage.now += reloading.pause or 0
                await reloading.look()
                pauses.append(reloading.pause)
            assert pauses == [60.0, 120.0, 240.0, 480.0, LONGEST_PAUSE, LONGEST_PAUSE]
            assert "503" in stage.readiness.notes["policy_bundle"]
            assert reloading.policies.revision == first

            server.status, server.content = 200, packed(tmp_path, "two")
            stage.now += LONGEST_PAUSE
            await reloading.look()
            assert reloading.policies.revision != first
            assert reloading.fetched_at == stage.now
            assert reloading.pause == 60.0

    assert stage.readiness.notes == {}
    assert stage.results == ["loaded", *["unreachable"] * 6, "loaded"]


async def test_a_kept_bundle_in_force_is_told(tmp_path: Path) -> None:
    stage, kept = Stage(), tmp_path / "kept"
    kept.write_bytes(packed(tmp_path, "one"))
    bundle = {"url": "http://127.0.0.1:9/x", "cache": str(kept), "required_at_start": False}
    async with stage.reloading(bundle=bundle):
        assert "kept bundle" in json.dumps(stage.readiness.notes)


async def test_where_nothing_is_due_nobody_looks() -> None:
    stage = Stage()
    async with stage.reloading(watch_seconds=0) as reloading:
        assert reloading.pause is None
        await reloading.watch()
        await reloading.look()


async def test_policies_in_shadow_are_read_anew_with_the_others_when_somebody_says_so(tmp_path: Path) -> None:
    """F2: those that do not load are noted, and change nothing of those in force."""
    stage = Stage()
    folder = rule(tmp_path / "tried", "one")
    policy = Policy()
    tried = await open_policies(Policy(folders=(folder,)))
    policies = await open_policies(policy)
    try:
        reloading = Reloading(
            policies, policy, stage.readiness, stage, lambda: stage.now, lambda: 0.5, beside=tried
        )
        first = tried.revision
        rule(tmp_path / "tried", "two")
        assert await reloading.reload()
        second = tried.revision
        assert second != first
        written(folder, team_rule("deny contains {"))
        assert await reloading.reload()
        assert tried.revision == second
        assert "rules.rego:4" in stage.readiness.notes["policy_shadow"]
    finally:
        await policies.close()
        await tried.close()

    assert stage.results == ["loaded", "unchanged", "unchanged"]
