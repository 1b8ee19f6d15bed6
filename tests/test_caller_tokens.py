"""Tokens: only what an issuer's own key proves is believed (F2; RFC 8725)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, strategies as st

from proxy.caller_tokens import fitting, issuer_of, peeked, said_at, usable_keys, verified
from proxy.errors import ClientFault
from proxy.token_settings import JwtIssuer
from tests.issuer import Issuer, Key, new_key

ONE, RSA = new_key("one"), new_key("rsa", "RS256")
ISSUER = Issuer(url="https://id.acme.example", keys=[ONE, RSA])
SETTINGS = JwtIssuer.model_validate(ISSUER.settings())
PUBLIC = usable_keys({"keys": [ONE.public, RSA.public]})


def proven(text: str, keys: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    found = peeked(text)
    assert found is not None
    return dict(verified(found, SETTINGS, PUBLIC if keys is None else keys).claims)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("key", [ONE, RSA, new_key("ed", "EdDSA")], ids=lambda key: key.algorithm)
def test_what_the_issuer_has_signed_holds(key: Key) -> None:
    """F2."""
    claims = proven(ISSUER.token(key=key, team="support"), usable_keys({"keys": [key.public]}))

    assert (claims["sub"], claims["team"]) == ("ann", "support")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"nbf": int(time.time()) + 3600}, "not valid yet"),
        ({"iat": int(time.time()) + 3600}, "not valid yet"),
        ({"aud": "somebody"}, "audience"),
        ({"aud": None}, "missing"),
        ({"exp": None}, "missing"),
        ({"sub": None}, "missing"),
        ({"iss": "https://id.acme.example/"}, "another issuer"),
        ({"exp": "soon"}, "cannot be read"),
        ({"sub": 7}, "cannot be read"),
        ({"key": new_key("one")}, "signature"),
        ({"key": new_key("two")}, "no key"),
        ({"headers": {"crit": ["x"], "x": 1}}, "cannot be read"),
        ({"headers": {"kid": "../one"}}, "no key"),
        ({"deep": json.loads("[" * 40 + "]" * 40)}, "more than"),
        ({"long": "x" * 20_000}, "too long"),
    ],
)
def test_what_does_not_hold_is_refused_with_the_reason(changes: dict[str, Any], why: str) -> None:
    """F2: fail closed, in words that say what to mend."""
    token = ISSUER.token(**changes)
    with pytest.raises(ClientFault, match=why) as refused:
        proven(token)

    assert (refused.value.status, refused.value.code) == (401, "invalid_token")
    assert token not in refused.value.message


def test_a_token_cannot_choose_how_it_is_checked() -> None:
    """No algorithm, or the public key taken for a shared secret (CVE-2015-9235 and its kin)."""
    body = {"iss": ISSUER.url, "aud": "callgate", "sub": "ann", "exp": int(time.time()) + 600}
    unsigned = f"{part({'alg': 'none', 'kid': 'one'})}.{part(body)}."
    signed = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(body)}"
    secret = json.dumps(RSA.public).encode()
    mac = base64.urlsafe_b64encode(hmac.digest(secret, signed.encode(), hashlib.sha256)).rstrip(b"=").decode()
    own_key = {"jwk": new_key("own").public, "jku": "https://evil.example/keys"}
    for token in (unsigned, f"{signed}.{mac}", ISSUER.token(key=new_key("own"), headers=own_key)):
        with pytest.raises(ClientFault):
            proven(token)


def test_keys_for_other_uses_prove_nothing() -> None:
    keys = [
        ONE.public | {"use": "enc"},
        ONE.public | {"key_ops": ["encrypt"]},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one"},
        "no key",
    ]

    assert usable_keys({"keys": keys}) == []
    assert usable_keys({"keys": "x"}) == usable_keys([]) == []


def test_a_key_of_another_algorithm_does_not_fit() -> None:
    found = peeked(ISSUER.token(headers={"kid": "rsa"}))

    assert found is not None
    assert fitting(PUBLIC, found) == []


def test_small_keys_prove_nothing() -> None:

    private = rsa.generate_private_key(65537, 1024)
    by_name: Any = jwt.get_algorithm_by_name("RS256")
    public = json.loads(by_name.to_jwk(private.public_key())) | {"kid": "small"}
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = ISSUER.token(key=Key(private, "RS256", public))
    with pytest.raises(ClientFault):
        proven(token, usable_keys({"keys": [public]}))


@given(st.text() | st.from_regex(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*", fullmatch=True))
def test_whatever_is_shown_is_looked_at_without_a_fault(text: str) -> None:
    found = peeked(text)

    assert found is None or found.text == text
    assert issuer_of(text, [SETTINGS]) is None


@given(
    head=st.dictionaries(st.sampled_from(["alg", "kid", "typ"]), st.none() | st.integers() | st.text()),
    body=st.dictionaries(st.sampled_from(["iss", "sub"]), st.none() | st.integers() | st.text()),
)
def test_a_token_of_odd_parts_is_nobody_s(head: dict[str, Any], body: dict[str, Any]) -> None:
    found = peeked(f"{part(head)}.{part(body)}.c2ln")

    assert found is not None
    assert all(isinstance(each, str) for each in (found.issuer, found.key_id, found.algorithm))


def test_claims_are_found_by_their_path() -> None:
    claims = {"a": {"b": "inner"}, "https://x.example/team": "dotted", "c": 1}

    assert said_at(claims, "a.b") == "inner"
    assert said_at(claims, "https://x.example/team") == "dotted"
    assert (said_at(claims, ""), said_at(claims, "c.d"), said_at(claims, "no")) == (None, None, None)
