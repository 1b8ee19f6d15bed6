"""The keys of issuers: asked for rarely, kept when they cannot be had (F2)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.caller_tokens import Token
from proxy.errors import ClientFault
from proxy.issuer_keys import LARGEST, KeyRing
from proxy.token_settings import JwtIssuer
from tests.issuer import Issuer, new_key


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def ring(issuer: Issuer, clock: Clock, **settings: Any) -> AsyncIterator[KeyRing]:
    async with issuer.serving() as served, KeyRing([_believed(served, **settings)], clock) as keys:
        yield keys


def _believed(issuer: Issuer, **settings: Any) -> JwtIssuer:
    return JwtIssuer.model_validate(issuer.settings(**settings))


async def code_of(keys: KeyRing, *shown: str) -> str:
    with pytest.raises(ClientFault) as refused:
        await keys.proven(shown)
    return f"{refused.value.status} {refused.value.code}"


async def test_keys_are_discovered_and_asked_for_once() -> None:
    """OpenID Connect Discovery 1.0."""
    issuer, clock = Issuer(), Clock()
    async with ring(issuer, clock) as keys:
        tokens = [await keys.proven(["provider-key", issuer.token()]) for _ in range(3)]

    assert all(isinstance(token, Token) and token.claims["sub"] == "ann" for token in tokens)
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_nothing_is_asked_for_what_is_no_token_of_an_issuer() -> None:
    issuer, clock = Issuer(), Clock()
    async with ring(issuer, clock) as keys:
        assert await keys.proven([]) is None
        assert await keys.proven(["sk-provider", issuer.token(iss="https://other.example")]) is None

    assert issuer.asked == []


async def test_a_new_key_is_found_and_unknown_ones_do_not_hammer() -> None:
    """A key rotation costs one question; a caller who makes names up costs none more."""
    issuer, clock = Issuer(), Clock()
    async with ring(issuer, clock, jwks_url="") as keys:
        await keys.proven([issuer.token()])
        issuer.keys = [new_key("two")]
        issuer.asked.clear()
        assert await code_of(keys, issuer.token()) == "401 invalid_token"
        assert issuer.asked == []
        clock.now += 31
        assert await keys.proven([issuer.token()])
        asked = len(issuer.asked)
        for number in range(20):
            stranger = new_key(f"made-up-{number}")
            assert await code_of(keys, issuer.token(key=stranger)) == "401 invalid_token"
        assert len(issuer.asked) == asked


async def test_a_key_that_is_withdrawn_proves_nothing_any_more() -> None:
    issuer, clock = Issuer(), Clock()
    async with ring(issuer, clock) as keys:
        old = issuer.token()
        await keys.proven([old])
        issuer.keys = [new_key("two")]
        clock.now += 301
        assert await code_of(keys, old) == "401 invalid_token"


async def test_while_the_issuer_is_down_its_keys_go_on_for_a_while() -> None:
    """And then nobody is believed."""
    issuer, clock = Issuer(), Clock()
    async with ring(issuer, clock, keep_seconds=1000) as keys:
        token = issuer.token()
        await keys.proven([token])
        issuer.status = 500
        clock.now += 500
        assert await keys.proven([token])
        clock.now += 600
        assert await code_of(keys, token) == "503 issuer_unavailable"
        asked = len(issuer.asked)
        assert await code_of(keys, token) == "503 issuer_unavailable"
        assert len(issuer.asked) == asked
        issuer.status = 200
        clock.now += 31
        assert await keys.proven([token])


@pytest.mark.parametrize(
    "broken",
    [
        {"status": 302},
        {"keys_body": b"no JSON"},
        {"keys_body": b'{"keys": []}'},
        {"keys_body": b"[" * (LARGEST + 1)},
        {"discovery": {"issuer": "https://other.example"}},
        {"discovery": {"jwks_uri": "http://elsewhere.example/keys"}},
        {"discovery": {"jwks_uri": None}},
    ],
)
async def test_documents_that_are_none_are_no_keys(broken: dict[str, Any]) -> None:
    issuer, clock = Issuer(**broken), Clock()
    async with ring(issuer, clock) as keys:
        assert await code_of(keys, issuer.token()) == "503 issuer_unavailable"
        (problem,) = await keys.check()

    assert issuer.url in problem


async def test_an_issuer_that_is_not_there_is_said() -> None:
    issuer, clock = Issuer(), Clock()
    async with issuer.serving():
        settings = JwtIssuer.model_validate(issuer.settings())
    async with KeyRing([settings], clock) as keys:
        assert await code_of(keys, issuer.token()) == "503 issuer_unavailable"


async def test_keys_may_stand_in_a_file(tmp_path: Path) -> None:
    issuer, clock = Issuer(url="acme"), Clock()
    file = tmp_path / "keys.json"
    settings = JwtIssuer.model_validate(issuer.settings(jwks_file=str(file)))
    async with KeyRing([settings], clock) as keys:
        assert await code_of(keys, issuer.token()) == "503 issuer_unavailable"
        file.write_text(json.dumps({"keys": [key.public for key in issuer.keys]}))
        clock.now += 31
        assert await keys.proven([issuer.token()])
        assert await keys.check() == []


async def test_of_two_tokens_none_counts() -> None:
    issuer, clock = Issuer(), Clock()
    async with ring(issuer, clock) as keys:
        token = issuer.token()
        assert await keys.proven([token, token])
        assert await code_of(keys, token, issuer.token(sub="ben")) == "401 two_keys"
