"""Drop-in (F1) for two further APIs: agents on Ollama's own client and on AWS's for Bedrock run their loops through
Callgate, refusals and limits included. Only the base URL is new to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import botocore.exceptions
import ollama
import pytest
import pytest_asyncio
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from proxy.demo import Answer, Call, Raw, Seen
from tests.agents import local_and_cloud as loops
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
LOOPS = {"ollama": loops.ollama_loop, "bedrock": loops.converse_loop}

KEY: dict[str, Any] = {"upstream__bedrock_converse__credential": "bedrock-api-key-1"}
"""A bearer key: what agents sign themselves is not sent on."""

each = pytest.mark.parametrize("sdk", LOOPS)
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


@each
@each_way
async def test_a_loop_of_several_steps_runs_as_without_a_proxy(
    sdk: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, A3: and it is one run, whose steps are all known."""
    async with shelf.play(tmp_path, **KEY) as stage:
        stage.provider.script(
            Answer("Let me look.", calls=(ORDER, OTHER_ORDER)),
            Answer(calls=(Call("search_policy", {"order_id": "A1"}),)),
            Answer("Here you are."),
        )
        ran: list[str] = []
        said = await LOOPS[sdk](stage.url, TASK, ran, stream=stream)
        assert_taken(stage)
        assert len(await runs(stage)) == 1
    assert said == "Here you are."
    assert ran == ["get_order of A1: done", "get_order of A2: done", "search_policy of A1: done"]


@each
@each_way
async def test_a_refused_call_goes_back_to_the_model_and_the_agent_reads_one_answer(
    sdk: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C2, D5: the model is told why, inside the proxy."""
    async with shelf.play(tmp_path, ONLY_B1, **KEY) as stage:
        stage.provider.script(
            Answer("One moment.", calls=(ORDER,)), Answer(calls=(REFUND,)), Answer("Sorry, I cannot.")
        )
        ran: list[str] = []
        said = await LOOPS[sdk](stage.url, TASK, ran, stream=stream)
        assert_taken(stage)
        assert b"Refund only order B1." in stage.provider.seen[2].body
    assert said == "Sorry, I cannot."
    assert ran == ["get_order of A1: done"]


@each
@each_way
async def test_of_two_calls_the_refused_one_never_reaches_the_agent(
    sdk: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C10, D5."""
    async with shelf.play(tmp_path, ONLY_B1, **KEY, reask__per_turn=0) as stage:
        stage.provider.script(Answer("So:", calls=(REFUND, ORDER)), Answer("Done."))
        ran: list[str] = []
        assert await LOOPS[sdk](stage.url, TASK, ran, stream=stream) == "Done."
        assert_taken(stage)
        assert b"Refund only order B1." in stage.provider.seen[1].body
        assert len(await runs(stage)) == 1
    assert ran == ["get_order of A1: done"]


@each
@each_way
@pytest.mark.parametrize("unit", ["rounds", "calls"])
async def test_at_a_limit_an_answer_still_comes(
    sdk: str, stream: bool, unit: str, shelf: Shelf, tmp_path: Path
) -> None:
    """B3, E7: the last answer may call nothing; whatever the provider makes of that, the agent gets no call."""
    async with shelf.play(tmp_path, {"org": {"limits": {"turn": {unit: 2}}}}, **KEY) as stage:
        stage.provider.respond(_as_told)
        ran: list[str] = []
        said = await LOOPS[sdk](stage.url, TASK, ran, stream=stream)
        assert_taken(stage)
    assert said
    assert len(ran) <= 2


def _as_told(seen: Seen) -> Answer:
    """A model that calls on and on, each time something else, until it is told to answer."""
    asked = seen.body.decode()
    count = asked.count("order_id of") + asked.count(": done")
    if "callgate" in asked and "tool" in asked.rpartition("callgate")[2]:
        return Answer("All I know so far.")
    return Answer(calls=(Call("get_order", {"order_id": f"A{count}"}),))


@each
@each_way
async def test_errors_of_the_provider_are_the_sdks_own(
    sdk: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C4: status and words as without a proxy."""
    body = b'{"error":"busy"}' if sdk == "ollama" else b'{"__type":"ThrottlingException","message":"busy"}'
    async with shelf.play(tmp_path, **KEY, upstream__retries=0) as stage:
        stage.provider.script(Raw(body, 429))
        with pytest.raises((ollama.ResponseError, botocore.exceptions.ClientError), match="busy"):
            await LOOPS[sdk](stage.url, TASK, [], stream=stream)


@each
async def test_errors_of_callgate_are_the_sdks_own(sdk: str, shelf: Shelf, tmp_path: Path) -> None:
    """C4, F2: a caller who is not known is told so."""
    async with shelf.play(tmp_path, **KEY, identity__anonymous="refuse") as stage:
        with pytest.raises((ollama.ResponseError, botocore.exceptions.ClientError), match="not known"):
            await LOOPS[sdk](stage.url, TASK, [], stream=False)
        assert not stage.provider.seen


# ---- AWS: models in paths, signatures ----


@pytest.mark.parametrize("model", [loops.MODEL, loops.PROFILE])
async def test_a_model_is_named_in_the_path_as_it_is_or_by_its_profile(
    model: str, shelf: Shelf, tmp_path: Path
) -> None:
    """A slash of an ARN travels encoded, and the model is known by its name."""
    async with shelf.play(tmp_path, **KEY) as stage:
        stage.provider.script(Answer("Hi."))
        assert await loops.converse_loop(stage.url, TASK, [], stream=True, model=model) == "Hi."
        assert stage.provider.seen[0].path.count("/") == 3


async def test_a_foreign_signature_never_travels_on(shelf: Shelf, tmp_path: Path) -> None:
    """It could not hold: the agent is told what to configure."""
    async with shelf.play(tmp_path) as stage:
        with pytest.raises(botocore.exceptions.ClientError, match=r"upstream\.bedrock_converse\.signer"):
            await loops.converse_loop(stage.url, TASK, [], stream=False)
        assert not stage.provider.seen


async def test_a_bearer_key_travels_on(shelf: Shelf, tmp_path: Path) -> None:
    """F1: the caller's own, or the configured one in the place of a signature."""
    body = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
    path = f"/model/{loops.MODEL.replace(':', '%3A')}/converse"
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer("Hi."))
        answered = await stage.post(path, body, {"authorization": "Bearer own-key"})
        assert answered.status == 200
        assert stage.provider.seen[0].headers["authorization"] == "Bearer own-key"
    async with shelf.play(tmp_path, **KEY) as stage:
        stage.provider.script(Answer("Hi."))
        await loops.converse_loop(stage.url, TASK, [], stream=False)
        headers = stage.provider.seen[0].headers
        assert headers["authorization"] == "Bearer bedrock-api-key-1"
        assert not {"x-amz-date", "x-amz-security-token"} & {name.lower() for name in headers}


SIGNER: dict[str, Any] = {
    "region": "us-east-1",
    "service": "bedrock",
    "access_key_id": "AKIDOFCALLGATE",
    "secret_access_key": "secret of callgate",
    "session_token": "token-1",
}


def assert_signed(seen: Seen, url: str) -> None:
    """The signature of the request is the one that AWS would expect."""
    signed = seen.headers["authorization"]
    names = signed.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    request = AWSRequest(
        seen.method,
        url + seen.path,
        {name: seen.headers[name] for name in names if name != "host"},
        seen.body,
    )
    request.context["timestamp"] = seen.headers["x-amz-date"]
    keys = Credentials(SIGNER["access_key_id"], SIGNER["secret_access_key"], SIGNER["session_token"])
    auth = SigV4Auth(keys, "bedrock", "us-east-1")
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names)
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDOFCALLGATE/")
    assert signed.endswith(f"Signature={expected}")


@each_way
async def test_what_an_agent_signed_is_signed_anew(stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """F1, F2: with an edited body too; and the agent's run is recognised though each request has another signature."""
    async with shelf.play(tmp_path, ONLY_B1, upstream__bedrock_converse__signer=SIGNER) as stage:
        stage.provider.script(Answer(calls=(ORDER,)), Answer(calls=(REFUND,)), Answer("Sorry, I cannot."))
        ran: list[str] = []
        said = await loops.converse_loop(stage.url, TASK, ran, stream=stream, model=loops.PROFILE)
        assert_taken(stage)
        for seen in stage.provider.seen:
            assert_signed(seen, stage.provider.url)
            assert "AKIDOFTHEAGENT" not in str(seen.headers)
        assert len(await runs(stage)) == 1
    assert said == "Sorry, I cannot."
