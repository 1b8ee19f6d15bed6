"""Which providers there are and how they are reached: one for each dialect, and any number with names of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Self

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from proxy import dialects
from proxy.dialects import Dialect
from proxy.setting_kinds import Count, HeaderName, Part, Seconds

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_OURS = frozenset({"admin", "callgate", "healthz", "metrics", "readyz", "runs", "upstream"})
"""First segments that stay free for Callgate's own paths."""


def setting_name(dialect: str) -> str:
    """How a dialect is written in settings: `openai-like` becomes `openai_like`."""
    return dialect.replace("-", "_")


def _by_name() -> Mapping[str, Dialect]:
    return {setting_name(dialect.name): dialect for dialect in dialects.DIALECTS}


def dialect_names() -> list[str]:
    """The dialects as they are written in settings."""
    return sorted(_by_name())


def taken_segments() -> frozenset[str]:
    """First segments of paths that cannot be the name of a provider: a request could mean either."""
    firsts = (route.path.split("/")[1] for dialect in dialects.DIALECTS for route in dialect.routes)
    return _OURS.union(first for first in firsts if "{" not in first)


class Signer(Part):
    """Requests are signed for AWS with these credentials. Needs botocore, an extra of this package."""

    region: str
    """AWS region that is signed for, e.g. `us-east-1`."""
    service: str
    """AWS service that is signed for, as AWS spells it in signatures."""
    access_key_id: SecretStr | None = None
    """Access key id; with `secret_access_key`."""
    secret_access_key: SecretStr | None = None
    """Secret access key."""
    session_token: SecretStr | None = None
    """Session token of temporary credentials."""
    chain: bool = False
    """Instead of keys: what botocore finds on this machine (variables, web identity, profiles, instance roles)."""
    profile: str | None = None
    """Of `chain`: the profile of the AWS files that is used."""

    @model_validator(mode="after")
    def _has_credentials(self) -> Self:
        given = [self.access_key_id, self.secret_access_key]
        if self.chain and (any(given) or self.session_token):
            raise ValueError("`chain` takes the place of keys: give one of them")
        if not self.chain and not all(given):
            raise ValueError("needs access_key_id and secret_access_key, or `chain: true`")
        if find_spec("botocore") is None:
            raise ValueError(
                "signing needs botocore, which comes with an extra of this package (see the README)"
            )
        return self


class Provider(Part):
    """One upstream: a dialect's own, or one with a name of its own."""

    dialect: str | None = None
    """What a provider with a name of its own speaks; not to be given below a dialect's name."""
    models: tuple[str, ...] = ()
    """Patterns such as `llama-*`: requests of its dialect for such a model go there, if their path names no provider."""
    base_url: str | None = None
    """Where requests go; None: where the official SDK would send them."""
    credential: SecretStr | None = None
    """The key sent to the provider in place of the caller's; empty: none is sent. None: the caller's own travels on."""
    credential_header: HeaderName | None = None
    """Header that carries it, e.g. `api-key` with Azure; None: as the dialect's SDK sends it."""
    signer: Signer | None = None
    """Requests are signed for AWS in place of the caller's own key or signature."""
    open_routes: tuple[str, ...] = ()
    """Further routes that pass through unread, e.g. `POST /v1/files`. A route that carries calls must not be here."""

    @field_validator("dialect")
    @classmethod
    def _is_known(cls, dialect: str | None) -> str | None:
        if dialect is not None and setting_name(dialect) not in _by_name():
            raise ValueError(f"there is no dialect {dialect}; there are {', '.join(dialect_names())}")
        return dialect

    @field_validator("base_url")
    @classmethod
    def _is_plain_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        scheme, mark, rest = url.partition("://")
        if not mark or scheme not in {"http", "https"} or not rest.strip("/"):
            raise ValueError("should be a URL that begins with http:// or https://")
        if set(url) & set("?#@ ") or not url.isascii() or not url.isprintable():
            raise ValueError("should be a plain URL: no user name, query, fragment or blank")
        return url.rstrip("/")

    @field_validator("open_routes")
    @classmethod
    def _are_routes(cls, routes: tuple[str, ...]) -> tuple[str, ...]:
        for route in routes:
            method, _, path = route.partition(" ")
            if method not in _METHODS or not path.startswith("/"):
                raise ValueError("should be a method and a path, e.g. `GET /v1/files`")
        return routes


_DEFAULT_PROVIDER = Provider()


class Upstream(Part):
    """How providers are reached. Below it, by dialect name with `_` or by a name of its own, one `Provider` each."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Provider] = Field(init=False)

    connect_seconds: Seconds = 10
    """The longest a connection (TLS included) may take."""
    answer_seconds: Seconds = 600
    """The longest a whole answer may take; what is left of the run bounds it further (E3)."""
    idle_seconds: Seconds = 300
    """The longest silence of a provider, not one byte."""
    retries: Count = 1
    """Further tries after a failed connection or an overload, only before anything reached the agent."""
    max_connections: Count = 0
    """Connections to providers at once; 0: not limited."""

    def provider(self, name: str) -> Provider:
        """The upstream of this name or of the dialect of this name, as configured or by default."""
        given = self.__pydantic_extra__ or {}
        return given.get(name) or given.get(setting_name(name)) or _DEFAULT_PROVIDER

    @property
    def named(self) -> dict[str, Provider]:
        """The providers with names of their own, in the order of the settings."""
        given = self.__pydantic_extra__ or {}
        return {name: provider for name, provider in given.items() if provider.dialect is not None}

    def of_dialect(self, dialect: str) -> dict[str, Provider]:
        """Those of them that speak this dialect."""
        return {
            name: provider
            for name, provider in self.named.items()
            if setting_name(provider.dialect or "") == setting_name(dialect)
        }

    def for_model(self, dialect: str, model: str) -> str | None:
        """The first provider of this dialect that was named for this model; None: the dialect's own."""
        for name, provider in self.of_dialect(dialect).items():
            if any(fnmatchcase(model, pattern) for pattern in provider.models):
                return name
        return None

    @model_validator(mode="after")
    def _are_well_named(self) -> Self:
        for name, provider in (self.__pydantic_extra__ or {}).items():
            fault = _fault_of_dialect(provider) if name in _by_name() else _fault_of_named(name, provider)
            if fault:
                raise ValueError(f"{name}: {fault}")
        return self


def _fault_of_dialect(provider: Provider) -> str | None:
    if provider.dialect is not None:
        return "this is the name of a dialect: leave `dialect` out, or choose another name"
    if provider.models:
        return "`models` is for providers with names of their own: all other models go to the dialect's"
    return None


def _fault_of_named(name: str, provider: Provider) -> str | None:
    if setting_name(name) in _by_name():
        return f"is written {setting_name(name)} here"
    if provider.dialect is None:
        return (
            f"there is no dialect {name}; there are {', '.join(dialect_names())}. "
            "A provider with a name of its own needs `dialect`"
        )
    if not _NAME.fullmatch(name):
        return "a name is a small letter and up to 63 small letters, digits, `_` and `-`"
    if name in taken_segments():
        return "paths begin with this word; choose another name"
    if provider.models and provider.credential is None and provider.signer is None:
        return (
            "`models` needs `credential`: a caller's own key is for another provider. "
            'Give `credential: ""` to send none'
        )
    return None
