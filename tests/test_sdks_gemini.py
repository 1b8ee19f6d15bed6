"""Drop-in (F1) for Gemini's API: agents on Google's own client run their loops through Callgate, refusals and limits
included. Only the base URL is new to them."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import google.genai.errors
import pytest
import pytest_asyncio

from proxy.demo import Answer, Call, Raw, Seen
from tests.agents.gemini_loops import MODEL, gemini_loop
from tests.playbook import Play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

TASK = "Where is my order A1, and can I have my money back?"
ONLY_B1 = {
    "org": {
        "tools": {
            "refund": {"arguments": {"order_id": {"one_of": ["B1"], "message": "Refund only order B1."}}}
        }
    }
}
ORDER = Call("get_order", {"order_id": "A1"})
OTHER_ORDER = Call("get_order", {"order_id": "A2"})
REFUND = Call("refund", {"order_id": "A1"})
OWN_KEY = "AIzaOfTheAgent"
KEY = "AIzaOfCallgate"
HI = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}

each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


def assert_taken(stage: Play) -> None:
    """The provider objected to nothing that came, and nothing scripted is left."""
    assert [seen.refused for seen in stage.provider.seen if seen.refused] == []
    assert not stage.provider.left


async def runs(stage: Play) -> set[str]:
    """The runs that decisions were recorded for."""
    return {decision["run"] for decision in await stage.decisions()}


@each_way
async def test_a_loop_of_several_steps_runs_as_without_a_proxy(
    stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, A3: and it is one run, whose steps are all known."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(
            Answer("Let me look.", calls=(ORDER, OTHER_ORDER)),
            Answer(calls=(Call("search_policy", {"order_id": "A1"}),)),
            Answer("Here you are."),
        )
        ran: list[str] = []
        said = await gemini_loop(stage.url, TASK, ran, stream=stream)
        assert_taken(stage)
        assert len(await runs(stage)) == 1
    assert said == "Here you are."
    assert ran == ["get_order of A1: done", "get_order of A2: done", "search_policy of A1: done"]


@each_way
async def test_a_refused_call_goes_back_to_the_model_and_the_agent_reads_one_answer(
    stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C2, D5: the model is told why, inside the proxy."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(
            Answer("One moment.", calls=(ORDER,)), Answer(calls=(REFUND,)), Answer("Sorry, I cannot.")
        )
        ran: list[str] = []
        said = await gemini_loop(stage.url, TASK, ran, stream=stream)
        assert_taken(stage)
        assert b"Refund only order B1." in stage.provider.seen[2].body
        assert len(await runs(stage)) == 1
    assert said == "Sorry, I cannot."
    assert ran == ["get_order of A1: done"]


@each_way
async def test_of_two_calls_the_refused_one_never_reaches_the_agent(
    stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C10, D5: and the one that stays carries the signature of the step, which the provider wants back."""
    async with shelf.play(tmp_path, ONLY_B1, reask__per_turn=0) as stage:
        stage.provider.script(Answer("So:", calls=(REFUND, ORDER)), Answer("Done."))
        ran: list[str] = []
        assert await gemini_loop(stage.url, TASK, ran, stream=stream) == "Done."
        assert_taken(stage)
        assert b"Refund only order B1." in stage.provider.seen[1].body
        assert b"c2lnbmVk" in stage.provider.seen[1].body
        assert len(await runs(stage)) == 1
    assert ran == ["get_order of A1: done"]


@each_way
@pytest.mark.parametrize("unit", ["rounds", "calls"])
async def test_at_a_limit_an_answer_still_comes(
    stream: bool, unit: str, shelf: Shelf, tmp_path: Path
) -> None:
    """B3, E7: the last answer may call nothing, and the model is told so."""
    async with shelf.play(tmp_path, {"org": {"limits": {"turn": {unit: 2}}}}) as stage:
        stage.provider.respond(_on_and_on)
        ran: list[str] = []
        said = await gemini_loop(stage.url, TASK, ran, stream=stream)
        assert_taken(stage)
    assert said == "All I know so far."
    assert len(ran) <= 2


def _on_and_on(seen: Seen) -> Answer:
    """A model that calls each time something else, until it must not."""
    assert seen.json is not None
    config = (seen.json.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if config.get("mode") == "NONE":
        return Answer("All I know so far.")
    return Answer(calls=(Call("get_order", {"order_id": f"A{seen.body.count(b': done')}"}),))


@each_way
async def test_errors_of_the_provider_are_the_sdks_own(stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """C4: status and words as without a proxy."""
    body = b'{"error":{"code":429,"message":"Quota exceeded.","status":"RESOURCE_EXHAUSTED"}}'
    async with shelf.play(tmp_path, upstream__retries=0) as stage:
        stage.provider.script(Raw(body, 429))
        with pytest.raises(google.genai.errors.ClientError) as caught:
            await gemini_loop(stage.url, TASK, [], stream=stream)
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert caught.value.message == "Quota exceeded."


@each_way
async def test_errors_of_callgate_are_the_sdks_own(stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """C4, F2: a caller who is not known is told so."""
    async with shelf.play(tmp_path, identity__anonymous="refuse") as stage:
        with pytest.raises(google.genai.errors.ClientError, match="not known") as caught:
            await gemini_loop(stage.url, TASK, [], stream=stream)
        assert not stage.provider.seen
    assert caught.value.status == "UNAUTHENTICATED"


@pytest.mark.parametrize("in_query", [False, True], ids=["in the header", "in the query"])
async def test_the_agents_key_gives_way_to_the_configured_one_and_is_never_told(
    in_query: bool, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F2: wherever it stands; neither key is in any log or record."""
    caplog.set_level(logging.DEBUG)
    path = f"/v1beta/models/{MODEL}:generateContent" + (f"?key={OWN_KEY}" if in_query else "")
    headers = {} if in_query else {"x-goog-api-key": OWN_KEY}
    async with shelf.play(tmp_path, upstream__gemini__credential=KEY) as stage:
        stage.provider.script(Answer("Hi."))
        assert (await stage.post(path, HI, headers)).status == 200
        (seen,) = stage.provider.seen
        await stage.callgate.flush_audit()
        told = caplog.text + stage.journal.read_text()
    assert seen.headers["x-goog-api-key"] == KEY
    assert OWN_KEY not in seen.path + str(seen.headers)
    assert OWN_KEY not in told
    assert KEY not in told


@pytest.mark.parametrize("in_query", [False, True], ids=["in the header", "in the query"])
async def test_the_agents_own_key_travels_on_where_none_is_configured(
    in_query: bool, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F1: in its own place, and untold as well."""
    caplog.set_level(logging.DEBUG)
    path = f"/v1beta/models/{MODEL}:generateContent" + (f"?key={OWN_KEY}" if in_query else "")
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer("Hi."))
        assert (await stage.post(path, HI, {} if in_query else {"x-goog-api-key": OWN_KEY})).status == 200
        (seen,) = stage.provider.seen
        await stage.callgate.flush_audit()
        told = caplog.text + stage.journal.read_text()
    assert OWN_KEY in (seen.path if in_query else seen.headers["x-goog-api-key"])
    assert OWN_KEY not in told


async def test_a_stream_as_an_array_stays_one_when_calls_are_refused(shelf: Shelf, tmp_path: Path) -> None:
    """F1, D5: one opening, one end, and the second answer's elements in between."""
    path = f"/v1beta/models/{MODEL}:streamGenerateContent"
    tools = [{"functionDeclarations": [{"name": "refund"}]}]
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(Answer("One moment.", calls=(REFUND,)), Answer("Sorry."))
        got = await stage.post(path, {**HI, "tools": tools})
        assert_taken(stage)
    elements = json.loads(got.body)
    parts = [part for one in elements for part in one["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in parts) == "One moment.\n\nSorry."
    assert b"refund" not in got.body


SECRET = "arguments-nobody-may-see"
CALL = '{"functionCall":{"name":"refund","args":{"order_id":"' + SECRET + '"}}}'


def content(parts: str) -> str:
    return '{"candidates":[{"content":{"role":"model","parts":[' + parts + ']},"finishReason":"STOP"}]}'


PIECES = f'[{{"jsonPath":"$.order_id","stringValue":"{SECRET}"}}]'
HOSTILE = (
    content(CALL),
    content(CALL.replace("functionCall", "FunctionCall")),
    content(CALL.replace("{", '{"text":"a",', 1)),
    content(CALL.replace("{", '{"thought":true,', 1)),
    content(f'{{"functionCall":{{"name":"refund","args":"{SECRET}"}}}}'),
    content(f'{{"functionCall":["{SECRET}"]}}'),
    content(CALL.replace('"refund"', "null")),
    content(CALL.replace('"order_id"', '"n":1e999,"order_id"')),
    content(CALL.replace(SECRET, "\\ud800" + SECRET)),
    content(f'{{"functionCall":{{"name":"refund","willContinue":true,"partialArgs":{PIECES}}}}}'),
    content(f'{{"functionCall":{{"name":"refund","partialArgs":{PIECES}}}}}'),
    content('{"text":"Hi"}').replace('"finishReason"', f'"groundingMetadata":{CALL},"finishReason"'),
    content('{"text":"Hi"}')[:-1] + f',"usageMetadata":{CALL}}}',
    f'{{"candidates":[{{"content":{{"parts":{CALL}}}}}]}}',
    f'{{"candidates":[{{"index":5,"content":{{"parts":[{CALL}]}}}}]}}',
    f'{{"promptFeedback":{CALL}}}',
    f'{{"error":{{"code":500,"message":"x","details":[{CALL}]}}}}',
    CALL,
    f"[{CALL}]",
)
FORMS = {
    "generateContent": ("", "", "application/json"),
    "streamGenerateContent?alt=sse": ("data: ", "\r\n\r\n", "text/event-stream"),
    "streamGenerateContent": ("[", "]\n", "application/json"),
}


@pytest.mark.parametrize("form", FORMS)
async def test_no_answer_however_strange_carries_a_call_past_the_judge(
    form: str, shelf: Shelf, tmp_path: Path
) -> None:
    """C11, D5: it fails, or its call is refused; nothing of the arguments arrives, and the answer is a sound one."""
    front, end, kind = FORMS[form]
    tools = [{"functionDeclarations": [{"name": "refund"}]}]
    async with shelf.play(tmp_path, ONLY_B1, reask__per_turn=0, upstream__retries=0) as stage:
        for place, body in enumerate(HOSTILE):
            stage.provider.script(Raw((front + body + end).encode(), headers={"content-type": kind}))
            asked = {"contents": [{"role": "user", "parts": [{"text": f"Hi {place}"}]}], "tools": tools}
            got = await stage.post(f"/v1beta/models/{MODEL}:{form}", asked)
            assert got.status in {200, 502}, body
            assert SECRET.encode() not in got.body, body
            assert got.events if kind == "text/event-stream" else got.json, body
