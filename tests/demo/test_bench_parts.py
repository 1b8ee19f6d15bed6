"""The processes of the benchmark: a pass-through that changes nothing, and a Callgate that guards for real."""

from __future__ import annotations

from contextlib import AsyncExitStack

import aiohttp

from proxy.demo import bench_parts
from proxy.demo.bench import CHAT, HEADERS, Load

LOAD = Load("small", 100, stream=False, concurrency=1)


async def _answers(role: str) -> tuple[bytes, dict[str, str]]:
    async with AsyncExitStack() as stack, aiohttp.ClientSession() as http:
        url = await bench_parts._provider(stack)
        if role == "bare":
            url = await bench_parts._bare(stack, url)
        elif role == "callgate":
            url = await bench_parts._callgate(stack, url)
        async with http.post(url + CHAT, data=LOAD.body(1), headers=HEADERS) as answer:
            assert answer.status == 200
            return await answer.read(), dict(answer.headers)


async def test_the_bare_way_hands_everything_on_unread() -> None:
    """What it is compared with must not do more than pass."""
    body, headers = await _answers("bare")

    assert b"get_order" in body
    assert not any(name.lower().startswith("x-callgate") for name in headers)


async def test_the_guarded_way_really_guards() -> None:
    """Otherwise the figures would flatter."""
    body, headers = await _answers("callgate")

    assert b"get_order" in body
    assert {name.lower() for name in headers} >= {"x-callgate-run", "x-callgate-request"}
