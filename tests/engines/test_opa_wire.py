"""How an OPA server is reached."""

from pathlib import Path

import pytest
from aiohttp import web

from proxy.engines.opa_wire import OpaClient, OpaServer, Refused, Said, ServerFault
from proxy.errors import EngineFault
from tests.real_opa import answering


async def fault_of(body: object, status: int = 500) -> Refused:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    async with answering(answer) as url:
        client = OpaClient(OpaServer(url))
        await client.open()
        try:
            with pytest.raises(Refused) as refused:
                await client.ask("x", {})
        finally:
            await client.close_connection()
    return refused.value


async def test_an_error_keeps_what_the_server_says_and_where() -> None:
    """The client that this one is made of drops it."""
    said = {
        "code": "eval_conflict_error",
        "message": "two\x1b[31m values",
        "location": {"file": "f", "row": 3, "col": 4},
    }
    refused = await fault_of({"code": "internal_error", "message": "error(s) occurred", "errors": [said]})

    assert (refused.http, refused.opa_code) == (500, "internal_error")
    assert refused.errors == (Said("eval_conflict_error", "two [31m values", "f", 3, 4),)
    assert str(refused) == "the OPA server says 500: error(s) occurred"


async def test_each_question_is_asked_once_and_strictly() -> None:
    """No retries: an evaluation that fails would be done three times. Failing functions are errors."""
    asked = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(
            (request.path, dict(request.query), await request.json(), request.headers.get("authorization"))
        )
        return web.Response(status=500)

    async with answering(answer) as url:
        client = OpaClient(OpaServer(f"{url}/behind/", token="t"))
        await client.open()
        with pytest.raises(Refused):
            await client.ask("callgate_1/decision", {"phase": "é"})
        await client.close_connection()

    body = {"input": {"phase": "é"}}
    assert asked == [
        ("/behind/v1/data/callgate_1/decision", {"strict-builtin-errors": "true"}, body, "Bearer t")
    ]


async def test_it_has_to_be_open() -> None:
    client = OpaClient(OpaServer("http://127.0.0.1:1"))
    with pytest.raises(EngineFault, match="closed"):
        await client.ask("x", {})


async def test_a_socket_that_is_not_there_cannot_be_reached(tmp_path: Path) -> None:
    client = OpaClient(OpaServer(f"unix://{tmp_path}/none.sock"))
    await client.open()
    with pytest.raises(ServerFault) as fault:
        await client.read("x")
    await client.close_connection()
    assert fault.value.code == "opa_unreachable"
    assert str(tmp_path) not in fault.value.message


async def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    client = OpaClient(OpaServer("https://127.0.0.1:1", ca_file=tmp_path / "ca.pem"))
    with pytest.raises(EngineFault, match=r"ca\.pem"):
        await client.open()
