"""Tokens (JWT, RFC 7519) and what they say about a caller. Keys are given; nothing here asks anybody (F2).

1. Only an issuer that is configured is believed, with its own keys, its own ways of signing and its own audiences. What a
   token says about keys or algorithms chooses among these and adds none (RFC 8725).
2. A token that names a configured issuer and does not hold is refused, never taken for an anonymous caller's key.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jwt

from proxy.engines.document import exact
from proxy.errors import ClientFault, EngineFault

if TYPE_CHECKING:
    from proxy.token_settings import JwtIssuer

MOST_TOKEN = 16_384
"""Characters of a token."""
MOST_CLAIMS = 16_384
"""Characters of its claims as JSON: policies read them with every decision."""
_DEEPEST = 16
_MOST_TRIED = 4
_DOTS = 2
_WHY = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is another issuer's"),
    (jwt.MissingRequiredClaimError, "a claim is missing (exp and sub are needed)"),
    (jwt.InvalidSignatureError, "its signature does not fit"),
)


@dataclass(frozen=True, slots=True)
class Peeked:
    """What a token says of itself. Nothing of it is proven."""

    text: str = field(repr=False)
    issuer: str
    key_id: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token that holds."""

    text: str = field(repr=False)
    issuer: JwtIssuer
    claims: Mapping[str, Any]


def peeked(text: str) -> Peeked | None:
    """What a text says of itself if it has the form of a token; None: it has not."""
    # However long: one that is too long is refused, and must not pass for a key of the provider.
    if text.count(".") != _DOTS or not text.isascii():
        return None
    head, body = (_object(part) for part in text.split(".")[:2])
    if head is None or body is None:
        return None
    said = (body.get("iss"), head.get("kid", ""), head.get("alg"))
    issuer, key_id, algorithm = (each if isinstance(each, str) else "" for each in said)
    return Peeked(text, issuer, key_id, algorithm)


def _object(part: str) -> dict[str, Any] | None:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def issuer_of(text: str, issuers: Iterable[JwtIssuer]) -> JwtIssuer | None:
    """The configured issuer that this text, if it is a token, says it is from."""
    found = peeked(text)
    return next((each for each in issuers if found is not None and each.issuer == found.issuer), None)


def usable_keys(document: object) -> list[dict[str, Any]]:
    """The keys of a JWK set (RFC 7517) that may prove a signature: public, and for that use."""
    keys = document.get("keys") if isinstance(document, Mapping) else None
    return [dict(key) for key in keys if _is_usable(key)] if isinstance(keys, Sequence) else []


def _is_usable(key: object) -> bool:
    if not isinstance(key, Mapping) or key.get("kty") not in ("RSA", "EC", "OKP"):
        return False
    operations = key.get("key_ops")
    return key.get("use") in (None, "sig") and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )


def fitting(keys: Iterable[Mapping[str, Any]], token: Peeked) -> list[Mapping[str, Any]]:
    """The keys that may be the token's: of its name where it names one, and of its algorithm where they say theirs."""
    return [
        key
        for key in keys
        if (not token.key_id or key.get("kid") == token.key_id) and key.get("alg") in (None, token.algorithm)
    ]


def verified(token: Peeked, issuer: JwtIssuer, keys: Sequence[Mapping[str, Any]]) -> Token:
    """The token with its claims, proven by one of these keys. Raises ClientFault (401), with the reason in words."""
    if len(token.text) > MOST_TOKEN:
        raise _refused("it is too long")
    if token.algorithm not in issuer.algorithms:
        raise _refused("it is signed in a way that is not accepted")
    why = "no key of its issuer fits"
    # Without a name several may be tried, but a stranger shall not have all of them tried.
    for key in fitting(keys, token)[:_MOST_TRIED]:
        try:
            claims = jwt.decode(
                token.text,
                jwt.PyJWK(dict(key), algorithm=token.algorithm),
                algorithms=[token.algorithm],
                audience=list(issuer.audience),
                issuer=issuer.issuer,
                leeway=issuer.leeway_seconds,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            why = next((said for kind, said in _WHY if isinstance(error, kind)), "it cannot be read")
            continue
        if _depth(claims) > _DEEPEST or len(json.dumps(claims)) > MOST_CLAIMS:
            raise _refused("it says more than can be judged")
        try:
            return Token(token.text, issuer, exact(claims, "its claims"))
        except EngineFault as fault:
            raise _refused(str(fault)) from None
    raise _refused(why)


def _depth(value: object, depth: int = 0) -> int:
    if depth > _DEEPEST or not isinstance(value, dict | list):
        return depth
    parts = value.values() if isinstance(value, dict) else value
    return max((_depth(part, depth + 1) for part in parts), default=depth)


def _refused(why: str) -> ClientFault:
    return ClientFault(f"The token is not accepted: {why}.", status=401, code="invalid_token")


def said_at(claims: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; a claim whose name has dots itself is found too. None: there is none."""
    if not path:
        return None
    if path in claims:
        return claims[path]
    name, _, rest = path.partition(".")
    inner = claims.get(name)
    return said_at(inner, rest) if rest and isinstance(inner, Mapping) else None
