"""Event streams and HTTP: C029 to C031."""

import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from proxy.core.runs import Outcome
from proxy.demo import Answer, Call, Raw
from tests.cases.clients import MESSAGES, Json, comments_of, lines_of, strictly
from tests.cases.harness import compact, raw_of, staged, text_of
from tests.dialects import messages_agent
from tests.raw_client import connected, post

BYTEWISE = range(1, 10_000)
CUTS = {"as given": None, "byte by byte": BYTEWISE, "in one piece": ()}


@pytest.mark.parametrize("line_end", ["\r\n", "\n", "\r"])
async def test_a_stream_is_read_by_the_rules_of_event_streams(tmp_path: Path, line_end: str) -> None:
    """C029. C1, F1."""
    async with staged("c029", tmp_path) as stage:
        case, (asked,), (answer,) = stage.case, stage.case.requests, stage.case.upstream
        written = answer | {"sse": answer["sse"].replace("\r\n", line_end)}
        for cuts in CUTS.values():
            stage.tell(written, cuts=cuts)
            found = await stage.send(asked, stage.fresh())

            case.holds("client.text", found.text)
            case.holds("client.tool_calls", found.tool_calls)
            case.holds("client.bytes", found.raw.decode())
            case.holds("client.finish", found.finish)
            ends = [line for line in lines_of(found.raw) if line.removeprefix(b"data:").strip() == b"[DONE]"]
            case.holds("client.stream", says=len(ends) == 1)
            assert [entry["outcome"] for entry in await stage.decisions(found)] == ["allow"]
            assert found.raw == text_of(written)


async def test_compressed_answers_are_judged_and_headers_stay_on_their_hop(tmp_path: Path) -> None:
    """C030. C1, F1. The client is a bare socket, so that nothing is decoded for it."""
    async with staged("c030", tmp_path) as stage:
        case, (asked,) = stage.case, stage.case.requests
        headers = [f"{name}: {value}" for name, value in asked["headers"].items()]
        port = urlsplit(stage.play.url).port or 0
        bodies = []
        for answer in case.upstream:
            stage.tell(answer)
            async with connected(port) as client:
                await client.send(post(asked["path"], compact(asked["body"]), *headers))
                await client.head()
                bodies.append((client.status, client.headers, await client.body()))

        (status, headed, body), (broken, shaped, problem) = bodies
        coding = headed.get("content-encoding", "identity")
        assert coding in {"identity", "gzip"}
        plain = body if coding == "identity" else gzip.decompress(body)
        found = strictly(MESSAGES, status, headed, plain)
        case.holds("run1.client.bytes", plain.decode())
        case.holds("run1.client.body", says=found.text.startswith("no") and found.calls == [])
        case.holds("run1.client.headers.request-id", headed["request-id"])
        for seen in stage.seen:
            case.holds("upstream.headers", {name.lower() for name in seen.headers})
            case.holds("upstream.headers.anthropic-beta", seen.headers["anthropic-beta"])
            assert seen.headers["anthropic-version"] == "2023-06-01"
            asked_for = {name.strip() for name in seen.headers["accept-encoding"].split(",")}
            assert asked_for <= {"gzip", "deflate", "br", "zstd", "identity"}
        case.holds("run2.client.status", broken)
        error = json.loads(problem)
        assert (error["type"], shaped["content-type"]) == ("error", "application/json")
        assert b"\x01\x02\x03" not in problem


HEARTBEAT = 0.15
"""Seconds; the case's 15 are a hundred times as long, as is all else in it."""


def written_slowly(start: Raw, pieces: list[bytes], pause: float, end: bytes) -> Raw:
    steps: list[bytes | float] = [start.body]
    for piece in pieces:
        steps += [pause, piece]
    return Raw(steps=(*steps, end), headers=start.headers)


def chat_piece(delta: Json, finish: str | None = None) -> bytes:
    head = {"id": "chatcmpl-k1", "object": "chat.completion.chunk", "created": 1790000000, "model": "maple-1"}
    body = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + compact(body) + b"\n\n"


def argument(text: str) -> bytes:
    return chat_piece({"tool_calls": [{"index": 0, "function": {"arguments": text}}]})


async def test_a_held_call_is_no_silence(tmp_path: Path) -> None:
    """C031, in a hundredth of the time. F1. A fragment comes more often than a heartbeat, and is held: only the
    signs of life keep the agent's connection alive. How long a silence was is counted in signs, not measured."""
    settings: Any = {"stream__heartbeat_seconds": HEARTBEAT, "upstream__idle_seconds": 0.6}
    async with staged("c031", tmp_path, **settings) as stage:
        case = stage.case
        chat_start, messages_start = map(raw_of, case.upstream)
        end = argument('"}') + chat_piece({}, "tool_calls") + b"data: [DONE]\n\n"
        stage.provider.script(written_slowly(chat_start, [argument("a")] * 30, 0.05, end))
        doc = messages_agent.call(0, "toolu_d", "write_doc", '{"text":', '"aaa"}')
        end = doc + messages_agent.ending("tool_use")
        stage.provider.script(written_slowly(messages_start, [messages_agent.PING] * 8, 0.2, end))

        signs = []
        for asked in case.requests:
            found = await stage.send(asked, stage.fresh())
            signs.append(len(comments_of(found.raw)))
            case.holds("client.finish", says=found.finish in (["tool_calls"], ["tool_use"]))
            if asked is case.requests[0]:
                case.holds("client.tool_calls", found.tool_calls)
            else:
                assert found.tool_calls == [
                    {"id": "toolu_d", "name": "write_doc", "arguments": {"text": "aaa"}}
                ]
            case.holds("proxy.idle_timeouts", int(stage.run(found).outcome is Outcome.FAILED))
        # A second and a half without a byte of content, a sign about every 0.15 s; few, if the machine is busy.
        assert signs[0] >= 3
        # Pings pass at once; between two of them is time for one sign.
        assert signs[1] >= 3
        case.holds("client.max_silence_s", 100 * HEARTBEAT)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_held_call_has_a_size_limit(tmp_path: Path, *, stream: bool) -> None:
    """C031, its last sentence: a block, not the end of the memory."""
    async with staged(
        "c031", tmp_path, stream__max_held_bytes=10_000, checks__max_argument_bytes=10_000
    ) as stage:
        stage.case.unseen.clear()
        for asked in stage.case.requests:
            call = Call("write_doc", {"text": "a" * 50_000})
            stage.provider.script(Answer("Writing.", calls=(call,), pieces=50))
            found = await stage.send(asked, stage.fresh(), stream=stream)
            assert found.calls == []
            assert "was not run" in found.text
            assert "aaaa" not in found.text
