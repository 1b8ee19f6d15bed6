"""Callers with tokens, through a running Callgate (F2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Answer, Call
from tests.issuer import Issuer, new_key
from tests.playbook import CHAT, MESSAGES, Answered, Play, play

RULES = """package callgate.team.support

deny contains {"code": "not_cleared", "call": call.index, "message": "Only level 3 may refund."} if {
	some call in input.calls
	call.name == "refund"
	not input.identity.claims.clearance.level >= 3
}
"""
BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "Refund A1."}],
    "tools": [{"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}],
}
REFUND = Answer(calls=(Call("refund", {"id": "A1"}),))


@pytest_asyncio.fixture
async def issuer() -> AsyncIterator[Issuer]:
    """An identity provider."""
    async with Issuer().serving() as served:
        yield served


def settings_for(tmp_path: Path, issuer: Issuer, **more: Any) -> dict[str, Any]:
    folder = tmp_path / "mine/callgate/team/support"
    folder.mkdir(parents=True)
    (folder / "cleared.rego").write_text(RULES)
    named = {"user": "sub", "team": "groups.team"}
    return {
        "policy__folders": [str(tmp_path / "mine")],
        "identity__jwt": [issuer.settings(claims=named)],
        "reask__per_turn": 0,
        "upstream__openai_chat__credential": "provider-key",
    } | more


async def ask(stage: Play, token: str, path: str = CHAT, **headers: str) -> Answered:
    shown = {"authorization": f"Bearer {token}"} | headers
    return await stage.post(path, BODY, shown)


async def test_policy_reads_what_the_issuer_has_signed(tmp_path: Path, issuer: Issuer) -> None:
    """F2: claims decide, through a rule of the team that the token names."""
    async with play(tmp_path, **settings_for(tmp_path, issuer)) as stage:
        stage.provider.script(REFUND, REFUND)
        groups = {"team": "support"}
        await ask(stage, issuer.token(groups=groups, clearance={"level": 2}))
        await ask(stage, issuer.token(groups=groups, clearance={"level": 3}, sub="ben"))
        said = [each["codes"] for each in await stage.decisions()]

    assert said == [["not_cleared"], []]


async def test_a_token_never_travels_on(tmp_path: Path, issuer: Issuer) -> None:
    """F2: the provider gets the configured key in its place, wherever else the token stands too."""
    async with play(tmp_path, **settings_for(tmp_path, issuer)) as stage:
        stage.provider.script(Answer("Yes."))
        token = issuer.token()
        got = await ask(stage, token, x_other=token, cookie=f"session={token}")
        (seen,) = stage.provider.seen

    assert got.status == 200
    assert token not in str(list(seen.headers.items()))


async def test_a_header_of_its_own_leaves_the_agent_its_key(tmp_path: Path, issuer: Issuer) -> None:
    """F1: an agent that has a provider key keeps it."""
    settings = settings_for(tmp_path, issuer, upstream__openai_chat__credential=None)
    async with play(tmp_path, **settings) as stage:
        stage.provider.script(Answer("Yes."))
        token = issuer.token()
        got = await ask(stage, "sk-own", **{"x-callgate-token": token})
        (seen,) = stage.provider.seen
        refused = await ask(stage, token)
        odd = await ask(stage, "sk-own", **{"x-callgate-token": "odd"})

    assert got.status == 200
    assert seen.headers["authorization"] == "Bearer sk-own"
    assert "x-callgate-token" not in seen.headers
    assert (refused.status, refused.json["error"]["code"]) == (500, "credential_missing")
    assert (odd.status, odd.json["error"]["code"]) == (401, "invalid_token")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_token_that_does_not_hold_is_nobody_s_key(tmp_path: Path, issuer: Issuer, path: str) -> None:
    """F2: fail closed, in the dialect's own shape; an anonymous caller's key travels on, this must not."""
    async with play(tmp_path, **settings_for(tmp_path, issuer)) as stage:
        wrong = issuer.token(key=new_key("one"))
        refused = await stage.post(path, BODY, {"authorization": f"Bearer {wrong}"})
        late = await stage.post(path, BODY, {"x-api-key": issuer.token(exp=1)})
        issuer.status = 500

        assert stage.provider.seen == []
    assert [each.status for each in (refused, late)] == [401, 401]
    assert "signature" in refused.json["error"]["message"]
    assert "expired" in late.json["error"]["message"]


async def test_a_limit_is_the_subject_s_whatever_token_it_shows(tmp_path: Path, issuer: Issuer) -> None:
    """F2, D12: a new token, other unsigned ids or another run header escape no limit of a run."""
    settings = settings_for(tmp_path, issuer)
    async with play(tmp_path, **settings, limits__run__rounds=1, limits__exhausted="refuse") as stage:
        stage.provider.script(Answer("One."), Answer("Two."))
        first = await ask(stage, issuer.token(jti="1"), **{"x-callgate-run": "r"})
        again = await ask(stage, issuer.token(jti="2"), **{"x-callgate-run": "r"})
        other = await ask(stage, issuer.token(sub="ben"), **{"x-callgate-run": "r"})

    assert [each.status for each in (first, again, other)] == [200, 403, 200]
    assert first.headers["x-callgate-run"] != other.headers["x-callgate-run"]


async def test_what_a_token_says_beats_a_gateway_s_headers(tmp_path: Path, issuer: Issuer) -> None:
    """A caller cannot choose another's identity."""
    trusted = {"trusted_networks": ["127.0.0.0/8"]}
    settings = settings_for(tmp_path, issuer, identity__trusted_header=trusted)
    async with play(tmp_path, **settings) as stage:
        stage.provider.script(REFUND)
        headers = {"x-callgate-team": "other", "x-callgate-user": "boss"}
        await ask(stage, issuer.token(groups={"team": "support"}), **headers)
        said = [each["codes"] for each in await stage.decisions()]

    assert said == [["not_cleared"]]


async def test_claims_of_an_odd_form_are_refused(tmp_path: Path, issuer: Issuer) -> None:
    async with play(tmp_path, **settings_for(tmp_path, issuer)) as stage:
        for team in (["support"], 7, "", "a\nb", "x" * 300):
            got = await ask(stage, issuer.token(groups={"team": team}))
            assert (got.status, got.json["error"]["code"]) == (401, "invalid_token"), team
        stage.provider.script(Answer("Yes."))
        got = await ask(stage, issuer.token(roles={"a": 1}))
        assert got.status == 401
        assert (await ask(stage, issuer.token(roles="clerk, boss"))).status == 200
