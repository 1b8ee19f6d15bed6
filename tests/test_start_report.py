"""What is said at the start: what is guarded, where to point an agent, what holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy import start_report
from proxy.config import load_settings
from proxy.dialects import DIALECTS
from proxy.engines import open_policies
from proxy.serving import Started

if TYPE_CHECKING:
    from pathlib import Path


async def test_an_operator_sees_base_urls_policies_profile_and_limits() -> None:
    """F1: the base URL to set is printed for every dialect; the starter profile says that it lets tools pass."""
    settings = load_settings(environment={})
    policies = await open_policies(settings.policy)
    try:
        said = start_report.lines(settings, policies, Started("http://127.0.0.1:1", "http://127.0.0.1:2"))
    finally:
        await policies.close()

    for dialect in DIALECTS:
        assert (
            f"{dialect.name}: base URL http://127.0.0.1:1{dialect.sdk_base_path} -> {dialect.base_url}"
            in said
        )
    assert "starter: every tool that an agent declares passes" in said
    assert policies.revision[:12] in said
    assert "100 rounds, 200 calls, 3600 seconds" in said
    assert "admin.token is not set" in said


async def test_a_check_that_is_not_enforced_is_said() -> None:
    """Nobody should believe to be guarded who is not."""
    settings = load_settings(
        overrides={"checks.modes.progress": "shadow", "faults.engine": "open", "policy.profile": "strict"},
        environment={},
    )

    faults, said = await start_report.examined(settings)

    assert faults == []
    assert "progress shadow" in said
    assert "lets everything pass" in said
    assert "strict: only tools that rules list" in said


async def test_a_bad_policy_is_said_with_line_and_column(tmp_path: Path) -> None:
    """F3: the place of the fault, as an editor can jump to it."""
    folder = tmp_path / "callgate" / "org"
    folder.mkdir(parents=True)
    (folder / "mine.rego").write_text("package callgate.org\n\ndeny contains x if {\n\tx := ]\n}\n")
    settings = load_settings(overrides={"policy.folders": [str(tmp_path)]}, environment={})

    faults, _ = await start_report.examined(settings)

    assert any("mine.rego:4:7" in fault for fault in faults), faults


async def test_a_named_provider_has_a_base_url_of_its_own() -> None:
    """F1: what to set, with what the provider has in front of its paths."""
    settings = load_settings(
        overrides={
            "upstream.near.dialect": "openai-chat",
            "upstream.near.base_url": "https://api.near.example/openai/v1",
            "upstream.near.models": ["llama-*", "qwen*"],
            "upstream.near.credential": "near-key",
            "upstream.far.dialect": "openai-chat",
            "upstream.far.base_url": "https://far.example/api/paas/v4",
            "upstream.here.dialect": "openai-chat",
            "upstream.here.base_url": "http://127.0.0.1:11434",
        },
        environment={},
    )

    _, said = await start_report.examined(settings)

    assert (
        "near: base URL http://127.0.0.1:8788/near/v1 -> https://api.near.example/openai/v1   "
        "(openai-chat, also for models llama-*, qwen*)" in said
    )
    assert (
        "far: base URL http://127.0.0.1:8788/far -> https://far.example/api/paas/v4   (openai-chat)" in said
    )
    assert "here: base URL http://127.0.0.1:8788/here/v1 -> http://127.0.0.1:11434   (openai-chat)" in said
    assert "near-key" not in said
