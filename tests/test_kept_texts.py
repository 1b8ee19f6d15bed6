"""Calls in text, in answers that the provider keeps: found there too, and no result is made up for them (C5, C7)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Answer, Raw, ScriptedProvider
from tests.playbook import RESPONSES
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES: dict[str, Any] = {"org": {"denied_tools": ["delete_note"]}}
REACT = [{"name": "react"}]
ALLOWED = "Action: read_note\nAction Input: 4"
REFUSED = "Action: delete_note\nAction Input: 9"

each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


@each_way
@pytest.mark.parametrize("text", [ALLOWED, REFUSED])
async def test_the_provider_waits_for_no_result_of_a_call_in_text(
    text: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C7: to it the answer is text; a result for it would be refused."""
    async with shelf.play(tmp_path, RULES, channels=REACT, reask__per_turn=0) as stage:
        stage.provider.script(Answer(text), Answer("Final Answer: 7"))
        body = {"model": "scripted-large", "input": "Look.", "stream": stream, "store": True}
        got = await stage.post(RESPONSES, body)
        answer = got.events[-1]["response"] if stream else got.json
        body |= {"input": "Observation: 7", "previous_response_id": answer["id"]}
        assert (await stage.post(RESPONSES, body)).status == 200
        assert json.loads(stage.provider.seen[-1].body) == body


def kept(status: str, *texts: str) -> Raw:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content}
    body = {"id": "resp_1", "object": "response", "model": "m", "status": status, "store": True}
    return Raw(json.dumps(body | {"output": [message] if texts else []}).encode())


@pytest.mark.parametrize(("text", "shown"), [(ALLOWED, True), (REFUSED, False)])
async def test_a_fetched_answer_is_searched_for_calls(
    text: str, *, shown: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C5: one that was made in the background was never seen before."""
    provider = ScriptedProvider(any_path=True)
    settings = {"channels": REACT, "kept__background": "allow"}
    async with shelf.play(tmp_path, RULES, provider=provider, **settings) as stage:
        stage.provider.script(kept("queued"), kept("completed", f"{text}\nObservation: 7"))
        body = {"model": "m", "input": "Look.", "background": True, "store": True}
        assert (await stage.post(RESPONSES, body)).json["status"] == "queued"
        async with stage.http.get(f"{stage.url}{RESPONSES}/resp_1") as fetched:
            got = await fetched.json()
        (decision,) = await stage.decisions()
    (part,) = got["output"][0]["content"]
    assert (part["text"] == f"{ALLOWED}\n") is shown
    assert ("callgate" in part["text"]) is not shown
    assert decision["outcome"] == ("allow" if shown else "block")
