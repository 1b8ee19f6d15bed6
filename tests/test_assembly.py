"""The parts are put together and taken apart again, also when one of them cannot be had."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest

from proxy.assembly import parts_of, running
from proxy.config import SettingsFault, load_settings
from proxy.errors import EngineFault

if TYPE_CHECKING:
    from pathlib import Path

FREE = {"listen.port": 0, "admin.port": 0}


async def test_a_running_callgate_is_healthy_and_gone_afterwards() -> None:
    """Both ports answer while the block lasts; nothing is left behind it."""
    async with aiohttp.ClientSession() as http:
        async with running(load_settings(overrides=FREE, environment={})) as callgate:
            async with http.get(callgate.admin_url + "/readyz") as answer:
                assert answer.status == 200
            assert callgate.policies.revision
        with pytest.raises(aiohttp.ClientConnectionError):
            await http.get(callgate.admin_url + "/readyz")
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_bad_policies_open_nothing(tmp_path: Path) -> None:
    """F3: fail closed: no port is opened without policies, and what was opened before is closed."""
    file = tmp_path / "rules.yaml"
    file.write_text("org: {allowed_tool: [x]}\n")
    settings = load_settings(overrides={**FREE, "policy.data": str(file)}, environment={})

    with pytest.raises(EngineFault, match="allowed_tool"):
        async with parts_of(settings):
            pass


async def test_a_taken_port_is_said_by_name() -> None:
    """The setting to change stands in the error."""
    async with running(load_settings(overrides=FREE, environment={})) as first:
        taken = {**FREE, "listen.port": int(first.url.rpartition(":")[2])}
        with pytest.raises(SettingsFault, match="listen: cannot listen"):
            async with running(load_settings(overrides=taken, environment={})):
                pass
