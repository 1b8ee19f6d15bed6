"""Several providers at once, over real sockets (F1): by path, by model, each with its own key and nobody else's."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from proxy.demo import Answer, ScriptedProvider
from proxy.demo.provider import Seen
from tests.playbook import CHAT, MESSAGES, RESPONSES, Play, play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SAID = [{"role": "user", "content": "hi"}]
OWN = {"hash": f"sha256:{hashlib.sha256(b'guard-k-1').hexdigest()}", "name": "one"}


def chat(model: str) -> dict[str, Any]:
    return {"model": model, "messages": SAID}


@asynccontextmanager
async def two(
    tmp_path: Path, near: dict[str, Any], **settings: Any
) -> AsyncIterator[tuple[Play, list[Seen]]]:
    """A Callgate before two providers: what goes to `near` is in the list, the rest in the play's own provider."""
    async with ScriptedProvider(seed="near") as provider:
        provider.respond(lambda _: Answer("near"))
        given = {"dialect": "openai-chat", "base_url": provider.url, **near}
        for name, value in given.items():
            settings[f"upstream__near__{name}"] = value
        async with play(tmp_path, **settings) as stage:
            stage.provider.respond(lambda _: Answer("usual"))
            yield stage, provider.seen


async def test_a_base_url_with_a_provider_s_name_goes_there_guarded(tmp_path: Path) -> None:
    """F1: all that an agent changes is its base URL."""
    rules = {"org": {"allowed_tools": ["look"]}}
    tools = [{"type": "function", "function": {"name": name}} for name in ("look", "delete")]
    async with two(tmp_path, {}, rules=rules) as (stage, seen):
        headers = {"authorization": "Bearer callers"}
        answer = await stage.post(f"/near{CHAT}", chat("m") | {"tools": tools}, headers)
        other = await stage.post(CHAT, chat("m"), headers)
        wrong = await stage.post(
            f"/near{MESSAGES}", {"model": "m", "max_tokens": 9, "messages": SAID}, headers
        )

    assert "near" in str(answer.json)
    assert "x-callgate-run" in answer.headers
    assert "usual" in str(other.json)
    assert wrong.status == 404
    (request,) = seen
    assert (request.path, request.headers["authorization"]) == (CHAT, "Bearer callers")
    body: Any = request.json
    assert [tool["function"]["name"] for tool in body["tools"]] == ["look"]


async def test_a_model_chooses_its_provider_and_no_caller_s_key_goes_along(tmp_path: Path) -> None:
    """Fail closed: a caller's own key is for somebody else."""
    near = {"models": ["llama-*"], "credential": "near-key"}
    async with two(tmp_path, near) as (stage, seen):
        for name in ("authorization", "api-key", "x-api-key"):
            await stage.post(CHAT, chat("llama-3"), {name: "callers-key"})
        usual = await stage.post(CHAT, chat("gpt-x"), {"authorization": "Bearer callers-key"})
        streamed = await stage.post(CHAT, chat("llama-3") | {"stream": True})

        assert [request.headers["authorization"] for request in seen] == ["Bearer near-key"] * 4
        assert "callers-key" not in str([request.headers for request in seen])
        assert "usual" in str(usual.json)
        assert stage.provider.seen[0].headers["authorization"] == "Bearer callers-key"
        assert (streamed.status, len(seen)) == (200, 4)


async def test_a_provider_without_a_key_gets_none(tmp_path: Path) -> None:
    async with two(tmp_path, {"models": ["*"], "credential": ""}) as (stage, seen):
        await stage.post(
            CHAT, chat("llama-3"), {"authorization": "Bearer callers-key", "api-key": "callers-key"}
        )

    assert "callers-key" not in str(seen[0].headers)
    assert "authorization" not in seen[0].headers


async def test_a_provider_s_key_is_not_for_strangers_where_callers_are_told_apart(tmp_path: Path) -> None:
    """F2: neither with the provider's key nor with the stranger's own."""
    near = {"models": ["llama-*"], "credential": "near-key"}
    own = {"authorization": "Bearer guard-k-1"}
    async with two(tmp_path, near, identity__api_keys=[OWN]) as (stage, seen):
        stranger = await stage.post(CHAT, chat("llama-3"), {"authorization": "Bearer strangers"})
        known = await stage.post(CHAT, chat("llama-3"), own)
        without = await stage.post(CHAT, chat("gpt-x"), own)
        by_path = await stage.post(f"/near{CHAT}", chat("llama-3"), {"authorization": "Bearer strangers"})

        assert (stranger.status, known.status, without.status, by_path.status) == (401, 200, 500, 200)
        assert "upstream.openai_chat.credential" in str(without.json)
        assert [request.headers["authorization"] for request in seen] == [
            "Bearer near-key",
            "Bearer strangers",
        ]
        assert stage.provider.seen == []
    assert b"strangers" not in stranger.body


async def test_a_key_of_callgate_s_own_has_credentials_for_each_provider(tmp_path: Path) -> None:
    keys = [{**OWN, "credentials": {"near": "own-near", "openai_chat": "own-usual"}}]
    near = {"models": ["llama-*"], "credential": "near-key"}
    async with two(tmp_path, near, identity__api_keys=keys) as (stage, seen):
        for path, model in ((CHAT, "llama-3"), (f"/near{CHAT}", "any"), (CHAT, "gpt-x")):
            await stage.post(path, chat(model), {"authorization": "Bearer guard-k-1"})

        assert [request.headers["authorization"] for request in seen] == ["Bearer own-near"] * 2
        assert stage.provider.seen[0].headers["authorization"] == "Bearer own-usual"


@pytest.mark.parametrize("model", ["gpt-x", "llama-3"])
async def test_passing_routes_know_no_model_and_go_to_the_dialect_s_own(tmp_path: Path, model: str) -> None:
    near = {"models": ["llama-*"], "credential": "near-key"}
    async with two(tmp_path, near) as (stage, seen):
        stage.headers.clear()
        await stage.post("/v1/embeddings", {"model": model, "input": "x"}, {"authorization": "Bearer k"})

        assert seen == []
        assert stage.provider.seen[0].headers["authorization"] == "Bearer k"


async def test_a_kept_answer_is_fetched_from_the_provider_that_keeps_it(tmp_path: Path) -> None:
    """C1: with that provider's key, whoever chose it; another provider that the path names has no such answer."""
    near = {"dialect": "openai-responses", "models": ["near-*"], "credential": "sk-near"}
    async with two(tmp_path, near, upstream__far__dialect="openai-responses") as (stage, seen):
        headers = {"authorization": "Bearer callers"}
        made = await stage.post(RESPONSES, {"model": "near-1", "input": "hi"}, headers)
        statuses = []
        for prefix in ("", "/near", "/far"):
            async with stage.http.get(
                f"{stage.url}{prefix}{RESPONSES}/{made.json['id']}", headers=headers
            ) as got:
                statuses.append(got.status)
        usual = await stage.post(RESPONSES, {"model": "m", "input": "hi"}, headers)
        async with stage.http.get(f"{stage.url}{RESPONSES}/{usual.json['id']}", headers=headers) as got:
            statuses.append(got.status)
        keys = [request.headers["authorization"] for request in seen]
        others = [request.headers["authorization"] for request in stage.provider.seen]
    assert statuses == [200, 200, 404, 200]
    assert keys == ["Bearer sk-near"] * 3
    assert others == ["Bearer callers"] * 2
