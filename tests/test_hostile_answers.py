"""Providers that are no providers: what is no HTTP, no JSON, no stream, is cut off, never ends or never comes. See
`tests.judged` for what must hold whatever comes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.dialects.agents import AGENTS
from tests.judged import MOST, Stage, assert_only_judged_calls, assert_sound, each_way, judging
from tests.raw_upstream import answer, chunk, chunked
from tests.siege import EACH, JSON, STREAM, assert_sound_error

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "openai-chat"
WHOLE = AGENTS[CHAT].whole
OK = b"HTTP/1.1 200 OK\r\n"
KIND = "content-type: application/json"
CANARY = b"an-insider-word"
HTML = b"<html><body><h1>502 Bad Gateway</h1>" + CANARY + b"</body></html>"
DEEP = 100_000

NO_ANSWER = {
    "nothing": b"",
    "a banner": b"SSH-2.0-" + CANARY + b"\r\n",
    "a head that is cut off": OK + b"content-type: appl",
    "a head without an end": OK + b"x-a: b\r\n" * 9,
    "a header without a colon": OK + CANARY + b"\r\n\r\n",
    "an endless header": OK + b"x-a: " + b"a" * 200_000 + b"\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "two lengths": OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "a length below zero": OK + b"content-length: -2\r\n\r\n{}",
    "less than was announced": OK + b"content-type: application/json\r\ncontent-length: 9999\r\n\r\n" + WHOLE,
    "a chunk of no size": chunked(KIND) + b"zz\r\n" + WHOLE,
    "chunks without an end": chunked(KIND) + chunk(WHOLE),
    "no gzip": answer(WHOLE, KIND, "content-encoding: gzip"),
    "half of gzip": answer(gzip.compress(WHOLE)[:-9], KIND, "content-encoding: gzip"),
    "gzip and more": answer(gzip.compress(WHOLE) + WHOLE, KIND, "content-encoding: gzip"),
    "an unknown coding": answer(WHOLE, KIND, "content-encoding: rot13"),
    "a way elsewhere": answer(WHOLE, KIND, "location: http://other/", status="307 Elsewhere"),
    "another protocol": answer(WHOLE, KIND, "upgrade: other", status="101 Switching"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an empty body": answer(b"", KIND),
    "HTML": answer(HTML, "content-type: text/html"),
    "HTML that is called JSON": answer(HTML, KIND),
    "text": answer(CANARY, "content-type: text/plain"),
    "null": answer(b"null", KIND),
    "a list": answer(b"[" + WHOLE + b"]", KIND),
    "a JSON text": answer(json.dumps(WHOLE.decode()).encode(), KIND),
    "another object": answer(b'{"detail":"' + CANARY + b'"}', KIND),
    "an answer, and more": answer(WHOLE + b" {}", KIND),
    "an answer in two": answer(WHOLE + b"\n" + WHOLE, KIND),
    "an answer that is cut off": answer(WHOLE[:-2], KIND),
    "deep lists": answer(b"[" * DEEP + b"]" * DEEP, KIND),
    "deep objects": answer(b'{"choices":' * DEEP + b"1" + b"}" * DEEP, KIND),
    "no UTF-8": answer(WHOLE.replace(b"first", b"\xff\xfe"), KIND),
    "UTF-16": answer(WHOLE.decode().encode("utf-16"), KIND),
    "a byte order mark": answer(b"\xef\xbb\xbf" + WHOLE, KIND),
    "far too much": answer(b'{"x":"' + b"a" * MOST + b'"}', KIND),
    "far too much when unpacked": answer(gzip.compress(b" " * 9 * MOST), KIND, "content-encoding: gzip"),
}
ODD_STREAMS = {
    "no events": b"",
    "HTML": HTML,
    "a whole answer": WHOLE,
    "comments": b": nothing\n\n" * 50,
    "an event without an end": b"data: " + WHOLE,
    "an endless line": b"data: " + b"a" * (17 << 20),
    "an endless event": b"data: a\n" * (1 << 20),
    "rubbish": bytes(range(256)) * 4,
    "NUL": b"data: \0\n\n",
    "text": b"data: hello\n\n",
    "deep lists": b"data: " + b"[" * DEEP + b"]" * DEEP + b"\n\n",
    "an end and nothing else": b"data: [DONE]\n\n",
    "an end before everything": b"data: [DONE]\n\n" + AGENTS[CHAT].stream,
    "two answers": AGENTS[CHAT].stream * 2,
    "the other dialect's": AGENTS["anthropic-messages"].stream,
}
SUCCESS = ("201 Created", "202 Accepted", "203 Non-Authoritative", "206 Partial", "299 Fine")
FAILURE = ("400 Bad", "401 No", "418 Teapot", "429 Slow", "500 Oh", "503 Busy", "529 Overloaded", "599 Odd")
KINDS = ("", "text/plain", "Application/JSON; charset=utf-8", "text/html", "TEXT/EVENT-STREAM", "x", "\xff")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with judging(tmp_path_factory.mktemp("siege")) as stage:
        yield stage


@EACH
@each_way
@pytest.mark.parametrize("what", NO_ANSWER)
async def test_what_is_no_answer_is_an_error_that_says_so(
    dialect: str, stream: bool, what: str, stage: Stage
) -> None:
    """C4: and nothing of it reaches the agent."""
    stage.provider.says(NO_ANSWER[what])
    got = await stage.asks(dialect, stream=stream)
    assert got.status == 502
    assert_sound_error(dialect, got, "provider")
    assert CANARY not in got.body


@EACH
@pytest.mark.parametrize("what", ODD_STREAMS)
async def test_a_stream_of_anything_comes_to_an_end(dialect: str, what: str, stage: Stage) -> None:
    stage.provider.says_body(ODD_STREAMS[what], STREAM)
    assert_sound(dialect, await stage.asks(dialect, stream=True), stream=True)
    assert_sound(dialect, await stage.asks(dialect, stream=False), stream=False)


@EACH
@each_way
@pytest.mark.parametrize("status", SUCCESS)
async def test_whatever_a_client_takes_for_an_answer_is_judged(
    dialect: str, stream: bool, status: str, stage: Stage
) -> None:
    """C3: clients read every 2xx."""
    agent = AGENTS[dialect]
    stage.provider.says_body(
        agent.stream if stream else agent.whole, STREAM if stream else JSON, status=status
    )
    got = await stage.asks(dialect, stream=stream)
    assert got.status == int(status[:3])
    assert_only_judged_calls(dialect, got, stream=stream)
    assert b"call_a1" in got.body
    assert b"call_b2" not in got.body


@EACH
@each_way
@pytest.mark.parametrize("status", FAILURE)
async def test_an_error_is_the_provider_s_own(dialect: str, stream: bool, status: str, stage: Stage) -> None:
    """F1: whatever stands in it, down to nothing."""
    for body in (b"", b'{"error":{"message":"odd"}}\n', HTML):
        stage.provider.says_body(body, "text/html", "retry-after: 99", status=status)
        got = await stage.asks(dialect, stream=stream)
        assert (got.status, got.body) == (int(status[:3]), body)
        assert got.headers["retry-after"] == "99"


@EACH
@each_way
@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_may_be_called_anything(dialect: str, stream: bool, kind: str, stage: Stage) -> None:
    for body in (AGENTS[dialect].whole, AGENTS[dialect].stream):
        stage.provider.says_body(body, kind)
        assert_sound(dialect, await stage.asks(dialect, stream=stream), stream=stream)


@EACH
@each_way
async def test_no_model_can_switch_policy_off(
    dialect: str, stream: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """D5, F3: also where faults of the engine are let pass, what no engine can judge is not."""
    agent = AGENTS[dialect]
    body, kind = (agent.stream, STREAM) if stream else (agent.whole, JSON)
    async with judging(tmp_path_factory.mktemp("siege"), faults__engine="open") as stage:
        for odd in (b"\\u0000", b"x" * 261_900):
            # Once as it stands in JSON, once as JSON in a text.
            text = odd if dialect == "anthropic-messages" and not stream else odd.replace(b"\\", b"\\\\")
            said = body.replace(b"snow", text)
            assert said != body
            stage.provider.says_body(said, kind)
            got = await stage.siege.asks(
                dialect, agent.request.replace(b"true", str(stream).lower().encode())
            )
            assert got.status == 200
            assert b"call_b2" not in got.body
            assert b"No policy can judge this" in got.body
            await stage.siege.is_unharmed()


# --- cut off ---


@EACH
async def test_an_answer_that_is_cut_off_anywhere_is_no_answer(dialect: str, stage: Stage) -> None:
    whole = AGENTS[dialect].whole.rstrip()
    for cut in range(0, len(whole), 5):
        stage.provider.says_body(whole[:cut], JSON)
        got = await stage.siege.asks(dialect, stage.request(dialect, stream=False))
        assert got.status == 502
        assert_sound_error(dialect, got)
    await stage.siege.is_unharmed()


@EACH
async def test_a_stream_that_just_stops_anywhere_makes_no_unjudged_call(dialect: str, stage: Stage) -> None:
    """As a provider that ends in good order, only too early."""
    whole = AGENTS[dialect].stream
    for cut in range(0, len(whole), 7):
        stage.provider.says_body(whole[:cut], STREAM)
        got = await stage.siege.asks(dialect, stage.request(dialect, stream=True))
        assert_sound(dialect, got, stream=True)
    await stage.siege.is_unharmed()


@EACH
async def test_a_stream_that_breaks_off_anywhere_ends_with_an_error(dialect: str, stage: Stage) -> None:
    """C4: an agent never takes half an answer for a whole one."""
    whole = AGENTS[dialect].stream
    for cut in range(1, len(whole), 11):
        stage.provider.says(chunked(f"content-type: {STREAM}") + chunk(whole[:cut]))
        got = await stage.siege.asks(dialect, stage.request(dialect, stream=True))
        assert_sound(dialect, got, stream=True)
        last = json.loads(got.body.rstrip().rpartition(b"data: ")[2])
        assert "provider" in last["error"]["message"]
    await stage.siege.is_unharmed()


# --- never ending ---


@EACH
@each_way
async def test_a_provider_that_falls_silent_anywhere_is_given_up(
    dialect: str, stream: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """E3: nothing hangs. So is one that never stops saying nothing."""
    agent = AGENTS[dialect]
    body, kind = (agent.stream, STREAM) if stream else (agent.whole, JSON)
    begun = chunked(f"content-type: {kind}") + chunk(body[: len(body) // 2])
    silent = [b"", OK, chunked(f"content-type: {kind}"), begun]
    endless = [(begun, chunk(b": still here\n\n")), (OK, b"x-a: b\r\n"), (begun, chunk(b" "))]
    limits = {"upstream__idle_seconds": 0.2, "upstream__answer_seconds": 0.6}
    async with judging(tmp_path_factory.mktemp("siege"), **limits) as stage:
        for start, drip in [*((start, b"") for start in silent), *endless]:
            stage.provider.says(start, stays=True, drip=drip)
            got = await stage.asks(dialect, stream=stream)
            assert_sound(dialect, got, stream=stream)
            assert b"error" in got.body
            assert b"call_" not in got.body
            await stage.provider.gone()
