"""The provider as a server: the script, what it has seen, cuts, resets, hang-ups."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from proxy.demo import Answer, Call, Raw, ScriptedProvider, Seen

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
VERSION = {"anthropic-version": "2023-06-01"}
USER = {"role": "user", "content": "Hi"}
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"json": {"model": "m", "messages": [USER]}},
    MESSAGES: {"json": {"model": "m", "max_tokens": 9, "messages": [USER]}, "headers": VERSION},
}


def streamed(path: str) -> dict[str, Any]:
    return ASKED[path] | {"json": ASKED[path]["json"] | {"stream": True}}


async def read_in_pieces(session: aiohttp.ClientSession, path: str, wanted: int) -> list[bytes]:
    """What arrives, one element a network read, until so many bytes are there."""
    pieces: list[bytes] = []
    async with session.post(path, **ASKED[path]) as response:
        while sum(map(len, pieces)) < wanted:
            pieces.append(await response.content.readany())
    return pieces


async def test_answers_are_given_in_order_then_the_responder_decides_then_nobody(
    provider: ScriptedProvider, session: aiohttp.ClientSession
) -> None:
    async def echo(seen: Seen) -> Answer:
        return Answer(f"{len(seen.body)} bytes")

    async def text() -> str:
        async with session.post(CHAT, **ASKED[CHAT]) as response:
            return str((await response.json())["choices"][0]["message"]["content"])

    provider.script(Answer("one"), Answer("two"))
    said = [await text(), await text()]
    provider.respond(lambda _: Answer("decided"))
    said.append(await text())
    provider.respond(echo)
    said.append(await text())

    assert said == ["one", "two", "decided", f"{len(provider.seen[3].body)} bytes"]


@pytest.mark.parametrize("path", ASKED)
async def test_an_empty_script_says_so(
    provider: ScriptedProvider, session: aiohttp.ClientSession, path: str
) -> None:
    async with session.post(path, **ASKED[path]) as response:
        body = await response.json()

    assert response.status == 500
    assert body["error"]["message"] == "script is empty"
    assert response.headers["x-should-retry"] == "false"


async def test_what_came_in_is_remembered(provider: ScriptedProvider, session: aiohttp.ClientSession) -> None:
    provider.script(Answer("Hi"))
    before = asyncio.get_running_loop().time()
    async with session.post(f"{CHAT}?a=b%20c", data=b'{"model": "m",  "messages": []}', headers={"X-A": "1"}):
        pass
    async with session.post(CHAT, data=b"{"):
        pass
    first, second = provider.seen

    assert (first.method, first.path, first.headers["x-a"]) == ("POST", f"{CHAT}?a=b%20c", "1")
    assert (first.body, first.json) == (b'{"model": "m",  "messages": []}', {"model": "m", "messages": []})
    assert before <= first.arrived <= second.arrived
    assert (second.json, second.status) == (None, 400)
    assert "could not parse" in str(second.refused)


async def test_nothing_is_remembered_if_so_wished() -> None:
    async with ScriptedProvider(remember=False) as quiet, aiohttp.ClientSession(quiet.url) as session:
        quiet.script(Answer("Hi"))
        async with session.post(CHAT, **ASKED[CHAT]) as response:
            await response.read()

    assert response.status == 200
    assert quiet.seen == []


async def test_a_lenient_provider_takes_a_broken_conversation() -> None:
    broken = {"messages": [{"role": "tool", "tool_call_id": "x", "content": ""}]}
    async with ScriptedProvider(strict=False) as lenient, aiohttp.ClientSession(lenient.url) as session:
        lenient.script(Answer("Hi"))
        async with session.post(CHAT, json=broken) as response:
            await response.read()
        async with session.post(MESSAGES, data=b"no json") as unreadable:
            await unreadable.read()

    assert (response.status, unreadable.status) == (200, 400)


async def test_other_routes_are_unknown(provider: ScriptedProvider, session: aiohttp.ClientSession) -> None:
    provider.script(Raw(b"{}"))
    for method, path in (
        ("POST", "/v1/v1/chat/completions"),
        ("GET", CHAT),
        ("POST", "/v1/messages/batches"),
    ):
        async with session.request(method, path) as response:
            body = await response.json()

        assert response.status == 404
        assert body["error"]["message"] == f"Invalid URL ({method} {path})"
    assert provider.left == 1


async def test_any_route_can_be_scripted_byte_for_byte() -> None:
    async with ScriptedProvider(any_path=True) as anything, aiohttp.ClientSession(anything.url) as session:
        anything.script(Raw(b"\x00\xff", headers={"Content-Type": "application/octet-stream", "X-B": "2"}))
        async with session.post("/v1/audio/speech", json={}) as response:
            body = await response.read()

        async with session.post("/v1/audio/speech", json={}) as unscripted:
            await unscripted.read()

    assert (body, response.headers["X-B"], response.content_type) == (
        b"\x00\xff",
        "2",
        "application/octet-stream",
    )
    assert unscripted.status == 404


@pytest.mark.parametrize(("headers", "key"), [({}, "object"), (VERSION, "has_more")])
async def test_models_are_listed_in_the_dialect_asked_in(
    session: aiohttp.ClientSession, headers: dict[str, str], key: str
) -> None:
    async with session.get("/v1/models", headers=headers) as response:
        body = await response.json()

    assert [entry["id"] for entry in body["data"]] == ["scripted-large", "scripted-small"]
    assert key in body


async def test_tokens_are_counted(provider: ScriptedProvider, session: aiohttp.ClientSession) -> None:
    async with session.post(f"{MESSAGES}/count_tokens?beta=true", **ASKED[MESSAGES]) as response:
        assert (await response.json())["input_tokens"] > 0
    async with session.post(f"{MESSAGES}/count_tokens", json={}, headers=VERSION) as refused:
        assert (await refused.json())["type"] == "error"
    assert [seen.status for seen in provider.seen] == [200, 400]


async def test_the_same_script_gives_the_same_bytes() -> None:
    bodies = []
    for _ in range(2):
        async with ScriptedProvider() as twin, aiohttp.ClientSession(twin.url) as session:
            twin.script(Answer("Hi", (Call("f"),)), Answer("Hi", (Call("f"),)))
            for path in ASKED:
                async with session.post(path, **streamed(path)) as response:
                    bodies.append(await response.read())

    assert bodies[:2] == bodies[2:]


async def test_raw_bytes_arrive_cut_where_the_script_cuts(
    provider: ScriptedProvider, session: aiohttp.ClientSession
) -> None:
    body = 'data: {"city": "Zürich"}\n\n'.encode()
    provider.script(Raw(body, cuts=(1, 18), delay=0.02, status=202))

    assert await read_in_pieces(session, CHAT, len(body)) == [body[:1], body[1:18], body[18:]]
    assert provider.seen[0].status == 202


async def test_steps_are_writes_and_silences(
    provider: ScriptedProvider, session: aiohttp.ClientSession
) -> None:
    provider.script(Raw(steps=(0.0, b"ab", 0.02, b"c")))

    assert await read_in_pieces(session, CHAT, 3) == [b"ab", b"c"]


@pytest.mark.parametrize("body", [b'{"a": 1', b"x" * 1_000_000])
async def test_a_reset_comes_after_the_body(
    provider: ScriptedProvider, session: aiohttp.ClientSession, body: bytes
) -> None:
    provider.script(Raw(body, ending="reset"))
    received: list[bytes] = []

    async def read_on(response: aiohttp.ClientResponse) -> None:
        while True:
            received.append(await response.content.readany())

    async with session.post(CHAT, **ASKED[CHAT]) as response:
        with pytest.raises((aiohttp.ClientPayloadError, ConnectionResetError)):
            await read_on(response)
    await provider.until(lambda: provider.seen[0].finished)

    assert b"".join(received) == body
    assert not provider.seen[0].hung_up


@pytest.mark.parametrize(
    "answer",
    [
        Raw(b"ab", ending="hang"),
        Raw(steps=(b"ab", 60.0, b"c")),
        Answer("Hello there", delay=60.0),
    ],
)
async def test_a_hang_up_is_noticed_at_once(provider: ScriptedProvider, answer: Answer | Raw) -> None:
    provider.script(answer)
    async with aiohttp.ClientSession(provider.url) as leaving:
        response = await leaving.post(MESSAGES, **streamed(MESSAGES))
        await response.content.read(1)
        response.close()
    await provider.until(lambda: provider.seen[0].hung_up, within=2)
    seen = provider.seen[0]

    assert seen.hung_up_after is not None
    assert 0 < seen.hung_up_after < 2
    assert not seen.finished


async def test_a_client_that_gives_up_before_the_first_byte_is_noticed(
    provider: ScriptedProvider, session: aiohttp.ClientSession
) -> None:
    provider.script(Answer("Hi", delay=60.0))
    with pytest.raises(TimeoutError):
        await session.post(CHAT, **ASKED[CHAT], timeout=aiohttp.ClientTimeout(total=0.05))
    await provider.until(lambda: provider.seen[0].hung_up, within=2)

    assert provider.seen[0].status is None


async def test_who_reads_to_the_end_has_not_hung_up(
    provider: ScriptedProvider, session: aiohttp.ClientSession
) -> None:
    provider.script(Answer("Hello there", delay=0.001))
    async with session.post(CHAT, **streamed(CHAT)) as response:
        body = await response.read()
    await provider.until(lambda: provider.seen[0].finished)

    assert body.endswith(b"data: [DONE]\n\n")
    assert (provider.seen[0].hung_up, provider.seen[0].hung_up_after) == (False, None)


async def test_closing_does_not_wait_for_a_hanging_answer() -> None:
    async with asyncio.timeout(2), aiohttp.ClientSession() as session:
        async with ScriptedProvider() as hanging:
            hanging.script(Raw(b"ab", ending="hang"))
            response = await session.post(f"{hanging.url}{CHAT}", **ASKED[CHAT])
            await response.content.read(2)
        response.close()

    assert not hanging.seen[0].hung_up


async def test_streams_are_announced_as_such_and_bodies_with_their_length(
    provider: ScriptedProvider, session: aiohttp.ClientSession
) -> None:
    provider.script(Answer("Hi"), Answer("Hi"))
    async with session.post(CHAT, **streamed(CHAT)) as stream:
        await stream.read()
    async with session.post(CHAT, **ASKED[CHAT]) as whole:
        body = await whole.read()

    assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert "Content-Length" not in stream.headers
    assert int(whole.headers["Content-Length"]) == len(body)
    assert json.loads(body)["object"] == "chat.completion"
