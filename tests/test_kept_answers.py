"""Answers and conversations that the provider keeps, as they are made, fetched and looked into (F1, F2, C6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
import pytest_asyncio
from agents import Agent, OpenAIConversationsSession, OpenAIResponsesModel, RunConfig, Runner

from proxy.demo import Raw, ScriptedProvider, Seen
from tests.playbook import RESPONSES, Play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES: dict[str, Any] = {"org": {"denied_tools": ["delete_note"]}}
TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}
    for name in ("read_note", "delete_note")
]
ASK = {"model": "m", "input": "Tidy up.", "tools": TOOLS, "background": True}
KEY = {"authorization": "Bearer sk-ann"}
OTHER_KEY = {"authorization": "Bearer sk-bob"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


def called(number: int, name: str, arguments: str = "{}") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


@dataclass
class Keeping:
    """A provider that keeps what it made, and says what a test puts into it."""

    output: list[dict[str, Any]] = field(default_factory=list)
    status: str = "queued"
    answer_id: str = "resp_1"
    items: list[dict[str, Any]] = field(default_factory=list)

    def provider(self) -> ScriptedProvider:
        provider = ScriptedProvider(any_path=True, strict=False)
        provider.respond(self.says)
        return provider

    def says(self, seen: Seen) -> Raw:
        path = urlsplit(seen.path).path
        if path.startswith("/v1/conversations"):
            return self._conversation(seen, path)
        record = {
            "id": self.answer_id,
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": self.status,
            "output": self.output,
            "tools": TOOLS,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
        }
        return Raw(json.dumps(record).encode())

    def _conversation(self, seen: Seen, path: str) -> Raw:
        listed: Any = {
            "object": "list",
            "data": self.items,
            "has_more": False,
            "first_id": None,
            "last_id": None,
        }
        if path == "/v1/conversations":
            listed = {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {}}
        elif seen.method == "POST":
            given: Any = seen.json
            for place, item in enumerate(given["items"]):
                parts = item["content"]
                if isinstance(parts, str):
                    parts = [{"type": "input_text", "text": parts}]
                self.items.append({"id": f"msg_{place}", "type": "message", **item, "content": parts})
            listed["data"] = self.items
        return Raw(json.dumps(listed).encode())


async def fetched(
    stage: Play, path: str, headers: dict[str, str] = KEY, method: str = "GET"
) -> tuple[int, Any]:
    async with stage.http.request(method, stage.url + path, headers=headers) as got:
        return got.status, json.loads(await got.read())


def names(answer: Any) -> list[str]:
    return [item["name"] for item in answer["output"] if item["type"] == "function_call"]


async def test_an_answer_made_in_the_background_is_judged_once_however_often_it_is_fetched(
    shelf: Shelf, tmp_path: Path
) -> None:
    """C6, E2: the same verdict each time; a call that was released counts once."""
    kept = Keeping()
    async with shelf.play(tmp_path, RULES, provider=kept.provider(), kept__background="allow") as stage:
        assert (await stage.post(RESPONSES, ASK, KEY)).status == 200
        assert names((await fetched(stage, f"{RESPONSES}/resp_1"))[1]) == []
        kept.status = "completed"
        kept.output = [called(1, "read_note"), called(2, "delete_note")]
        for _ in range(3):
            status, answer = await fetched(stage, f"{RESPONSES}/resp_1")
            assert (status, names(answer)) == (200, ["read_note"])
        assert [found["tool"] for found in await stage.decisions()] == ["read_note", "delete_note"]


async def test_of_many_that_fetch_one_answer_at_once_one_judges_it(shelf: Shelf, tmp_path: Path) -> None:
    """E2: else its calls would look like repetitions of themselves, and be paid for several times."""
    kept = Keeping()
    async with shelf.play(tmp_path, RULES, provider=kept.provider(), kept__background="allow") as stage:
        await stage.post(RESPONSES, ASK, KEY)
        kept.status, kept.output = "completed", [called(1, "read_note"), called(2, "delete_note")]
        answers = await asyncio.gather(*(fetched(stage, f"{RESPONSES}/resp_1") for _ in range(8)))
        assert all((status, names(answer)) == (200, ["read_note"]) for status, answer in answers)
        assert len(await stage.decisions()) == 2


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([called(1, "delete_note")], id="another-tool"),
        pytest.param([called(1, "read_note"), called(1, "delete_note")], id="a-second-of-this-id"),
    ],
)
async def test_a_call_that_was_released_lends_its_id_to_no_other(
    later: list[dict[str, Any]], shelf: Shelf, tmp_path: Path
) -> None:
    """C11: what was judged is what the tool gets, letter by letter."""
    kept = Keeping(status="in_progress", output=[called(1, "read_note")])
    async with shelf.play(tmp_path, RULES, provider=kept.provider(), kept__background="allow") as stage:
        assert names((await stage.post(RESPONSES, ASK, KEY)).json) == ["read_note"]
        kept.status, kept.output = "completed", later
        _, answer = await fetched(stage, f"{RESPONSES}/resp_1")
        assert "delete_note" not in names(answer)
        assert [found["outcome"] for found in await stage.decisions()] == ["allow", "block"]


async def test_other_arguments_under_a_known_id_are_judged_anew(shelf: Shelf, tmp_path: Path) -> None:
    """C11: an answer that is fetched while it is being made grows."""
    kept = Keeping(status="in_progress", output=[called(1, "read_note", '{"id":4}')])
    async with shelf.play(tmp_path, RULES, provider=kept.provider(), kept__background="allow") as stage:
        await stage.post(RESPONSES, ASK, KEY)
        kept.status, kept.output = "completed", [called(1, "read_note", '{"id":4,"all":true}')]
        await fetched(stage, f"{RESPONSES}/resp_1")
        assert [found["arguments"] for found in await stage.decisions()] == [
            '{"id":4}',
            '{"id":4,"all":true}',
        ]


async def test_a_kept_answer_is_not_streamed(shelf: Shelf, tmp_path: Path) -> None:
    """C6: refused in a sentence, before anything is fetched."""
    kept = Keeping()
    async with shelf.play(tmp_path, RULES, provider=kept.provider(), kept__background="allow") as stage:
        await stage.post(RESPONSES, ASK, KEY)
        status, answer = await fetched(stage, f"{RESPONSES}/resp_1?stream=true&starting_after=0")
        assert (status, len(stage.provider.seen)) == (400, 1)
        assert "`stream`" in answer["error"]["message"]
        assert (await fetched(stage, f"{RESPONSES}/resp_1?stream=false"))[0] == 200


@pytest.mark.parametrize("shown", ["resp_a%3D", "resp_a=", "resp%5Fa%3d"])
@pytest.mark.parametrize(
    ("method", "rest"), [("DELETE", ""), ("GET", "/input_items"), ("GET", ""), ("POST", "/cancel")]
)
async def test_an_id_is_the_same_however_it_is_encoded(
    shown: str, method: str, rest: str, shelf: Shelf, tmp_path: Path
) -> None:
    """F2, C021: no way of writing it makes it nobody's."""
    kept = Keeping(answer_id="resp_a=")
    async with shelf.play(tmp_path, RULES, provider=kept.provider(), kept__background="allow") as stage:
        await stage.post(RESPONSES, ASK, KEY)
        assert (await fetched(stage, f"{RESPONSES}/{shown}{rest}", OTHER_KEY, method))[0] == 404
        assert len(stage.provider.seen) == 1
        assert (await fetched(stage, f"{RESPONSES}/{shown}{rest}", KEY, method))[0] == 200


CONVERSATION = "/v1/conversations/conv_1"
ITEMS = {"items": [{"type": "message", "role": "user", "content": "Hello."}]}


async def test_a_conversation_is_its_maker_s_before_there_is_an_answer_in_it(
    shelf: Shelf, tmp_path: Path
) -> None:
    """F2: nobody else looks into it, adds to it, takes from it, goes on from it or deletes it."""
    async with shelf.play(tmp_path, RULES, provider=Keeping().provider(), kept__unknown="refuse") as stage:
        assert (await stage.post("/v1/conversations", {}, KEY)).json["id"] == "conv_1"
        assert (await stage.post(f"{CONVERSATION}/items", ITEMS, KEY)).status == 200
        assert (await fetched(stage, f"{CONVERSATION}/items"))[0] == 200
        arrived = len(stage.provider.seen)
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", ""),
            ("GET", "/items"),
            ("POST", "/items"),
            ("GET", "/items/msg_0"),
            ("DELETE", "/items/msg_0"),
        ):
            assert (await fetched(stage, f"{CONVERSATION}{path}", OTHER_KEY, method))[0] == 404
        asked = {"model": "m", "input": "And?", "conversation": "conv_1"}
        assert (await stage.post(RESPONSES, asked, OTHER_KEY)).status == 404
        assert len(stage.provider.seen) == arrived
        assert (await stage.post(RESPONSES, asked, KEY)).status == 200
        assert (await fetched(stage, f"{CONVERSATION}/items/msg_0", method="DELETE"))[0] == 200


@pytest.mark.parametrize(
    "body", [b"{}", b'{"id": ""}', b'{"id": 7}', b"[]", b"no", b'{"id": "a", "id": "b"}']
)
async def test_what_was_made_without_an_id_is_an_error(body: bytes, shelf: Shelf, tmp_path: Path) -> None:
    """C11."""
    async with shelf.play(tmp_path, provider=ScriptedProvider(any_path=True, strict=False)) as stage:
        stage.provider.respond(lambda _: Raw(body))
        assert (await stage.post("/v1/conversations", {}, KEY)).status == 502


async def test_sessions_of_the_agents_sdk_that_the_provider_keeps_work(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: made, filled, read, shortened and deleted, where only what this Callgate knows may be gone on from."""
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    said = {
        "type": "message",
        "id": "msg_9",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Blue.", "annotations": []}],
    }
    kept = Keeping(status="completed", output=[said])
    async with (
        shelf.play(tmp_path, provider=kept.provider(), kept__unknown="refuse") as stage,
        openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key="sk-ann", max_retries=0) as client,
    ):
        session = OpenAIConversationsSession(openai_client=client)
        agent = Agent(name="a", model=OpenAIResponsesModel(model="m", openai_client=client))
        done = await Runner.run(agent, "Which?", session=session, run_config=RunConfig(tracing_disabled=True))
        assert done.final_output == "Blue."
        assert len(await session.get_items()) == 2
        assert await session.pop_item() is not None
        await session.clear_session()
        assert [(seen.method, urlsplit(seen.path).path) for seen in stage.provider.seen][-1] == (
            "DELETE",
            CONVERSATION,
        )
