"""Ways to the provider that go round the guard: C021."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from proxy.demo import ScriptedProvider
from proxy.dialects import DIALECTS, RouteKind
from tests.cases.clients import Json
from tests.cases.harness import compact, raw_of, staged
from tests.raw_client import connected

MESSAGES = "/v1/messages"


def written(request: Json) -> bytes:
    """The request as it stands on the wire: no client has put its path in order."""
    body = request["body_raw"].encode() if "body_raw" in request else compact(request.get("body", {}))
    headers = {"host": "callgate", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    headers |= request.get("headers", {})
    chunked = headers.get("transfer-encoding") == "chunked"
    headers |= {} if chunked else {"content-length": str(len(body))}
    lines = [
        f"{request['method']} {request['path']} HTTP/1.1",
        *(f"{key}: {value}" for key, value in headers.items()),
    ]
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    return "\r\n".join([*lines, "", ""]).encode() + sent


async def asked(url: str, request: Json) -> tuple[int, bytes]:
    """Status and body of the answer."""
    async with asyncio.timeout(10), connected(urlsplit(url).port or 0) as client:
        await client.send(written(request))
        return await client.head(), await client.body()


@pytest.mark.parametrize("stream", [False, True])
async def test_no_road_leads_round_the_guard(tmp_path: Path, *, stream: bool) -> None:
    """C021. D1, D5: a path is put in order once; what is then no guarded road is refused, and nobody asked upstream."""
    lenient = ScriptedProvider(strict=False)  # it would take an empty conversation
    async with staged("c021", tmp_path, provider=lenient) as stage:
        case = stage.case
        for _ in case.requests:
            stage.provider.script(raw_of(case.upstream[0]))
        found = []
        for request in case.requests:
            before = len(stage.seen)
            body = request.get("body", {})
            streamed = {"body": body | {"stream": stream}} if "messages" in body else {}
            status, said = await asked(stage.play.url, request | streamed)
            found.append((status, said, len(stage.seen) - before))
        stage.provider._script.clear()

        everything = b"".join(said for _, said, _ in found)
        case.holds("client.bytes", everything.decode())
        # A path in disorder is refused, or it is the guarded one: then the call in the answer was judged.
        for number in (1, 2):
            status, said, sent = found[number]
            case.holds(
                f"responses[{number}]", says=(status in {403, 404} and not sent) or b"[callgate]" in said
            )
        for number in (3, 5):
            status, _, sent = found[number]
            case.holds(f"responses[{number}]", says=status in {403, 404} and not sent)
        status, _, sent = found[4]
        guarded = [seen for seen in stage.seen if seen.headers["content-type"] == "application/json"]
        case.holds("responses[4]", says=(status in {400, 415} and not sent) or guarded == stage.seen)
        case.holds(
            "counters.model_requests", says=sum(run.spent.rounds for run in stage.runs()) == len(stage.seen)
        )
        case.holds("upstream.requests", len(stage.seen))
        assert found[0][0] == 404, "a prefix that nobody configured is no road"
        assert {seen.path for seen in stage.seen} <= {MESSAGES}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_roads_that_could_carry_calls_are_closed_in_every_dialect(
    dialect: object, tmp_path: Path
) -> None:
    """C021: none of them reaches the provider, whatever stands in the holes of its path."""
    routes = [
        route for one in DIALECTS if one is dialect for route in one.routes if route.kind is RouteKind.REFUSED
    ]
    async with staged("c021", tmp_path) as stage:
        stage.case.unseen.clear()
        for route in routes:
            path = "/".join("x1" if part.startswith("{") else part for part in route.path.split("/"))
            path = path.replace("{", "x").replace("}", "")
            status, _ = await asked(stage.play.url, {"method": route.method, "path": path})
            assert status in {403, 404, 405}, path
        assert stage.seen == []
