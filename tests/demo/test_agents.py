"""The loops on the official SDKs, straight against the scripted provider: what they execute, say and record."""

import pytest

from proxy.demo import Answer, Call, Raw, ScriptedProvider
from proxy.demo.agents import MOST_ROUNDS, SDKS, Sdk, play_agent
from proxy.demo.shop import Shop

each_sdk = pytest.mark.parametrize("sdk", [pytest.param(sdk, id=sdk.name) for sdk in SDKS])
ORDER = Call("get_order", {"order_id": "A123"})


@each_sdk
async def test_an_agent_executes_calls_and_ends_with_the_answer(provider: ScriptedProvider, sdk: Sdk) -> None:
    """F1."""
    provider.script(Answer("I look.", calls=(ORDER, ORDER)), Answer("A lamp."))
    shop = Shop()

    played = await play_agent(sdk, provider.url, "key", "What is A123?", shop)

    assert played.said == ["I look.", "A lamp."]
    assert shop.executed == [("get_order", {"order_id": "A123"})] * 2
    assert [seen.refused for seen in provider.seen] == [None, None]
    assert all(seen.json and seen.json["stream"] for seen in provider.seen)
    assert not played.fault


@each_sdk
async def test_every_byte_that_came_is_kept(provider: ScriptedProvider, sdk: Sdk) -> None:
    provider.script(Answer("A lamp."))

    played = await play_agent(sdk, provider.url, "key", "What is A123?", Shop())

    (reply,) = played.replies
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.body.endswith(b"\n\n")
    assert reply.body.count(b"data: ") > 3


@each_sdk
async def test_what_the_sdk_raises_is_part_of_the_record(provider: ScriptedProvider, sdk: Sdk) -> None:
    provider.script(Raw(b'{"error":{"message":"no","type":"x"}}', status=403))

    played = await play_agent(sdk, provider.url, "key", "What is A123?", Shop())

    assert "403" in played.fault
    assert played.replies[0].status == 403


@each_sdk
async def test_an_agent_whose_model_never_ends_gives_up_by_itself(
    provider: ScriptedProvider, sdk: Sdk
) -> None:
    provider.respond(lambda _: Answer(calls=(ORDER,)))

    played = await play_agent(sdk, provider.url, "key", "What is A123?", Shop())

    assert len(provider.seen) == MOST_ROUNDS
    assert "gave up" in played.fault
