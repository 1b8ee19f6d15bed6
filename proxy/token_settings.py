"""Callers who are known by a token (JWT) of an identity provider, as an operator writes it (F2)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from proxy.setting_kinds import Part, Seconds

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signed with a private key: whoever can check such a token cannot make one."""
ClaimPath = Annotated[str, Field(max_length=256)]
Said = Annotated[str, Field(min_length=1, max_length=2048)]


class ClaimPaths(Part):
    """Where in a token a caller's identity is said; a dot goes into a member. Empty: nowhere."""

    organisation: ClaimPath = ""
    """The organisation."""
    team: ClaimPath = ""
    """The team: policies of this layer hold."""
    agent: ClaimPath = ""
    """The agent: policies of this layer hold."""
    user: ClaimPath = "sub"
    """The person or program that the token is about."""
    roles: ClaimPath = "roles"
    """The roles: a list, or one text with spaces or commas between them."""


class JwtIssuer(Part):
    """An identity provider whose tokens are believed."""

    issuer: Said
    """What its tokens say in `iss`, letter by letter."""
    audience: Annotated[tuple[Said, ...], Field(min_length=1)]
    """What its tokens must say in `aud`: one of these."""
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256", "EdDSA")
    """The only ways of signing that are accepted."""
    jwks_url: str = ""
    """Where its public keys are. Empty, and no `jwks_file`: `<issuer>/.well-known/openid-configuration` says where."""
    jwks_file: Path | None = None
    """A file with its public keys, instead of a URL."""
    claims: ClaimPaths = ClaimPaths()
    """Where identity is said."""
    leeway_seconds: Annotated[float, Field(ge=0, le=600, allow_inf_nan=False)] = 30
    """How much its clock may differ."""
    cache_seconds: Seconds = 300
    """How long its keys are used before they are asked for again."""
    keep_seconds: Seconds = 86_400
    """How long its keys are used while it cannot be reached."""
    refresh_seconds: Seconds = 30
    """How often at most it is asked, whatever keys tokens name."""
    timeout_seconds: Seconds = 5
    """The longest that it may take."""
    allow_http: bool = False
    """Whether a URL without TLS may lie elsewhere than on this machine."""

    @field_validator("audience", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_safe_urls(self) -> Self:
        if self.jwks_url and self.jwks_file:
            raise ValueError("give jwks_url or jwks_file, not both")
        if not self.jwks_file:
            self.check_url(self.jwks_url or self.issuer)
        return self

    def check_url(self, url: str) -> None:
        """Raises ValueError for a URL from which no keys may be had."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
            raise ValueError(f"{url[:200]!a} should be https://host/path, without a password in it")
        if parts.scheme == "http" and not self.allow_http and not _is_here(parts.hostname):
            raise ValueError(f"{url[:200]!a} is not https (allow_http: true lets it be)")


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
