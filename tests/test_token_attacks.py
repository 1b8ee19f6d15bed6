"""Callers who try to get past tokens, and those who come all at once: through a whole Callgate (F2)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxy.caller_tokens import Token, peeked, verified
from proxy.config import load_settings
from proxy.demo import Answer, ScriptedProvider
from proxy.errors import ClientFault
from proxy.issuer_keys import KeyRing
from proxy.start_report import examined
from proxy.token_settings import JwtIssuer
from tests.issuer import AUDIENCE, Issuer, Key, new_key
from tests.playbook import CHAT, Answered, Play, play

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@dataclass
class SlowIssuer(Issuer):
    """Its keys come when the test says so."""

    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def _keys(self, request: web.Request) -> web.Response:
        self.wanted.set()
        await self.open.wait()
        return await super()._keys(request)


@asynccontextmanager
async def guarded(tmp_path: Path, issuer: Issuer, **settings: Any) -> AsyncIterator[Play]:
    async with issuer.serving():
        said = issuer.settings(**settings.pop("issuer", {}))
        settings.setdefault("upstream__openai_chat__credential", "sk-provider")
        async with play(tmp_path, identity__jwt=[said], **settings) as stage:
            stage.provider.script(*[Answer("Hello.")] * 30)
            yield stage


async def asked(stage: Play, token: str, header: str = "authorization") -> Answered:
    value = f"Bearer {token}" if header == "authorization" else token
    return await stage.post(CHAT, BODY, {header: value})


def code_of(answered: Answered) -> str:
    return f"{answered.status} {answered.json['error']['code']}"


def encoded(part: object) -> str:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def forged(issuer: Issuer, head: dict[str, Any], secret: bytes | None = None) -> str:
    body = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 60}
    signed = f"{encoded(head)}.{encoded(body)}"
    signature = b"" if secret is None else hmac.digest(secret, signed.encode(), hashlib.sha256)
    return f"{signed}.{encoded(signature)}"


def public_forms(key: Key) -> list[bytes]:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.private.public_key()
    return [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(key.public).encode(),
    ]


async def test_a_token_that_nobody_signed_is_refused_and_not_sent_on(tmp_path: Path) -> None:
    """RFC 8725, 2.1: none, and the public key as if it were a secret."""
    issuer = Issuer(keys=[new_key("one", "RS256")])
    async with guarded(tmp_path, issuer) as stage:
        heads = [{"alg": alg, "kid": "one"} for alg in ("none", "None", "nOnE", "")]
        tokens = [forged(issuer, head) for head in heads]
        for form in public_forms(issuer.keys[0]):
            tokens += [forged(issuer, {"alg": alg, "kid": "one"}, form) for alg in ("HS256", "RS256")]
        for token in tokens:
            assert code_of(await asked(stage, token)) == "401 invalid_token"
        assert stage.provider.seen == []


async def test_a_token_brings_no_key_of_its_own(tmp_path: Path) -> None:
    """RFC 8725, 3.10: jwk, jku and x5u are not followed."""
    issuer, stranger = Issuer(), new_key("one")
    async with guarded(tmp_path, issuer) as stage:
        for head in (
            {"jwk": stranger.public},
            {"jku": f"{issuer.url}/theirs"},
            {"x5u": f"{issuer.url}/theirs"},
        ):
            token = issuer.token(key=stranger, headers=head)
            assert code_of(await asked(stage, token)) == "401 invalid_token"
        assert set(issuer.asked) == {"/.well-known/openid-configuration", "/keys"}
        assert stage.provider.seen == []


@pytest.mark.parametrize("head", [{"crit": ["b64"], "b64": True}, {"crit": ["x"], "x": 1}, {"crit": []}])
async def test_what_a_token_calls_critical_is_refused(tmp_path: Path, head: dict[str, Any]) -> None:
    """RFC 7515, 4.1.11."""
    issuer = Issuer()
    async with guarded(tmp_path, issuer) as stage:
        assert code_of(await asked(stage, issuer.token(headers=head))) == "401 invalid_token"


async def test_a_token_that_is_too_long_is_refused_and_not_taken_for_a_provider_s_key(tmp_path: Path) -> None:
    issuer = Issuer()
    async with guarded(tmp_path, issuer, upstream__openai_chat__credential=None) as stage:
        token = issuer.token(filling="x" * 14_000)
        assert 16_384 < len(token) < 30_000

        assert code_of(await asked(stage, token)) == "401 invalid_token"
        assert code_of(await asked(stage, token, "x-api-key")) == "401 invalid_token"
        assert stage.provider.seen == []


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "\ud800"},
        {"sub": "a\0b"},
        {"name": "\ud800"},
        {"roles": [f"r{number}" for number in range(300)]},
        {"roles": {"a": 1}},
        {"exp": 1e400},
        {"iat": "soon"},
        {"sub": 7},
        {"sub": ""},
        {"deep": json.loads("[" * 40 + "]" * 40)},
    ],
    ids=str,
)
async def test_claims_that_cannot_be_judged_are_refused(tmp_path: Path, claims: dict[str, Any]) -> None:
    """None of them is a fault of ours, and none is cut to what fits."""
    issuer = Issuer()
    async with guarded(tmp_path, issuer) as stage:
        assert code_of(await asked(stage, issuer.token(**claims))) == "401 invalid_token"
        assert stage.provider.seen == []


async def test_many_callers_at_once_wait_for_the_first_keys(tmp_path: Path) -> None:
    """One question for all, and nobody is refused because another one asks."""
    issuer = SlowIssuer()
    async with guarded(tmp_path, issuer) as stage, asyncio.TaskGroup() as group:
        tasks = [group.create_task(asked(stage, issuer.token(sub=f"s{number}"))) for number in range(10)]
        await issuer.wanted.wait()
        issuer.open.set()
        answers = [await task for task in tasks]

        assert [answer.status for answer in answers] == [200] * 10
        assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_a_caller_that_hangs_up_takes_the_keys_from_nobody() -> None:
    """Else whoever connects and leaves would keep all others out until the next question is due."""
    issuer = SlowIssuer()
    async with issuer.serving():
        believed = JwtIssuer.model_validate(issuer.settings())
        async with KeyRing([believed], lambda: 1000.0) as keys:
            leaving = asyncio.get_running_loop().create_task(keys.proven([issuer.token()]))
            await issuer.wanted.wait()
            leaving.cancel()
            await asyncio.wait([leaving])
            issuer.open.set()

            assert isinstance(await keys.proven([issuer.token()]), Token)


async def test_a_token_that_held_does_not_outlive_its_key_nor_itself() -> None:
    """What is remembered of a token is bound to the keys that proved it, and to its end."""
    issuer, now, wall = Issuer(), [1000.0], [time.time()]
    async with issuer.serving():
        believed = JwtIssuer.model_validate(issuer.settings())
        async with KeyRing([believed], lambda: now[0], lambda: wall[0]) as keys:
            token, short = issuer.token(), issuer.token(exp=int(time.time()) - 10)
            first = await keys.proven([token])
            assert first == await keys.proven([token])
            assert await keys.proven([short])  # within the leeway, looked at anew each time
            issuer.keys = [new_key("two")]
            now[0] += believed.cache_seconds
            with pytest.raises(ClientFault, match="no key"):
                await keys.proven([token])


def test_a_token_without_a_key_s_name_has_few_tried() -> None:
    """Else one request would cost as many signatures as the issuer has keys."""
    keys = [new_key(f"k{number}") for number in range(6)]
    issuer = Issuer(url="https://id.example", keys=keys)
    believed = JwtIssuer.model_validate(issuer.settings())
    public = [key.public for key in keys]
    nameless = [issuer.token(key=key, headers={"kid": ""}) for key in keys]
    held = []
    for token in nameless:
        found = peeked(token)
        assert found is not None
        with suppress(ClientFault):
            verified(found, believed, public)
            held.append(token)

    assert held == nameless[:4]


async def test_the_provider_of_a_model_gets_its_own_key_for_a_caller_with_a_token(tmp_path: Path) -> None:
    """The dialect's own provider needs no key where the model's has one."""
    async with ScriptedProvider(seed="near") as near:
        near.respond(lambda _: Answer("near"))
        chosen = {
            "dialect": "openai-chat",
            "base_url": near.url,
            "models": ["llama-*"],
            "credential": "near-key",
        }
        settings = {f"upstream__near__{name}": value for name, value in chosen.items()}
        issuer = Issuer()
        async with guarded(tmp_path, issuer, upstream__openai_chat__credential=None, **settings) as stage:
            token = issuer.token()
            got = await stage.post(CHAT, BODY | {"model": "llama-3"}, {"authorization": f"Bearer {token}"})
            other = await asked(stage, token)

        assert got.status == 200
        assert near.seen[0].headers["authorization"] == "Bearer near-key"
        assert token not in str(near.seen[0].headers)
        assert code_of(other) == "500 credential_missing"
        assert stage.provider.seen == []


async def test_a_key_and_a_token_together_are_refused(tmp_path: Path) -> None:
    """One proof counts, and nobody chooses between two."""
    issuer = Issuer()
    key = {"hash": f"sha256:{hashlib.sha256(b'guard-k-1').hexdigest()}", "name": "one"}
    async with guarded(tmp_path, issuer, identity__api_keys=[key]) as stage:
        shown = {"authorization": f"Bearer {issuer.token()}", "x-api-key": "guard-k-1"}

        assert code_of(await stage.post(CHAT, BODY, shown)) == "401 two_keys"
        assert stage.provider.seen == []


async def test_check_says_whether_keys_can_be_had(tmp_path: Path) -> None:
    """An operator sees it before any caller does."""
    issuer = Issuer()
    async with issuer.serving():
        settings = load_settings(overrides={"identity.jwt": [issuer.settings()]}, environment={})
        _, well = await examined(settings)
        issuer.status = 500
        _, ill = await examined(settings)

    assert issuer.url not in well
    assert f"identity.jwt: {issuer.url}: " in ill
    assert "status 500" in ill
