"""Who is calling: a key of Callgate's own, the headers of a trusted gateway, or nobody in particular (F2).

1. A key of Callgate's own never travels on: with it goes a credential for the provider, or the request is refused.
2. No secret is kept: callers are told apart by digests.
3. Headers are believed by the address of the connection, never by what another header says.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from multidict import MultiMapping

from proxy import dialects
from proxy.core.runs import Identity
from proxy.dialects import Dialect
from proxy.errors import ClientFault
from proxy.settings import ApiKey, IdentitySettings, Settings, setting_name

_SAID = re.compile(r"[ -~]{1,256}")
_MOST_ROLES = 32
_DIGEST_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and the key that goes to the provider in place of the caller's (None: the caller's own)."""

    identity: Identity
    credential: str | None = field(default=None, repr=False)


def identify(headers: MultiMapping[str], peer: str, dialect: Dialect, settings: Settings) -> Caller:
    """The caller of this request.

    `peer` is the address of the connection ("" where there is none). Raises ClientFault: 401 for a caller who may
    not be anonymous or shows two keys, 400 for identity headers that cannot be read, 500 where a key of Callgate's
    own would have to travel on because no credential for the provider is configured.
    """
    shown = list(_credentials(headers))
    key = _own_key(shown, settings.identity)
    said = _trusted(headers, peer, settings.identity)
    upstream = settings.upstream.provider(dialect.name).credential
    replacement = upstream.get_secret_value() if upstream else None
    if key is not None:
        own = key.credentials.get(setting_name(dialect.name))
        replacement = own.get_secret_value() if own else replacement
        if not replacement:
            raise _no_credential(key, dialect)
        return Caller(_of_key(key, said), replacement)
    if said is not None:
        return Caller(said, replacement)
    if settings.identity.anonymous == "refuse":
        raise ClientFault(
            "This caller is not known. Send a key that this Callgate was given in identity.api_keys.",
            status=401,
            code="unknown_caller",
        )
    # Where callers are told apart, the provider's key is for those who are known: else a caller would leave its own
    # layer, and keep the key, by sending none.
    knows = settings.identity.api_keys or settings.identity.trusted_header.trusted_networks
    return Caller(Identity(key=_anonymous_key(shown, settings.identity)), None if knows else replacement)


@cache
def credential_header_names() -> frozenset[str]:
    """The names of all headers, of any dialect, that may carry a key."""
    return frozenset(name for dialect in dialects.DIALECTS for name in dialect.credential_headers)


@cache
def _sorted_names() -> tuple[str, ...]:
    return tuple(sorted(credential_header_names()))


def _credentials(headers: MultiMapping[str]) -> Iterator[str]:
    """Every key shown, in any header that may carry one: one dialect's key may come in another's header."""
    for name in _sorted_names():
        for value in headers.getall(name, ()):
            scheme, _, rest = value.strip().partition(" ")
            key = rest.strip() if scheme.lower() == "bearer" else value.strip()
            if key:
                yield key


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _own_key(shown: list[str], settings: IdentitySettings) -> ApiKey | None:
    # Looked up by digest: how long that takes says nothing about any key.
    known = settings.keys_by_digest
    if not known:
        return None
    found = {name: known[name] for name in map(_digest, shown) if name in known}
    if len(found) > 1:
        raise ClientFault("The request shows two different keys. Send one.", status=401, code="two_keys")
    return next(iter(found.values()), None)


def _no_credential(key: ApiKey, dialect: Dialect) -> ClientFault:
    name = setting_name(dialect.name)
    return ClientFault(
        f"The key {key.name!r} is known to this Callgate only and is not sent on, and no key for the provider is "
        f"configured. Set upstream.{name}.credential, or credentials.{name} of this key.",
        status=500,
        code="credential_missing",
    )


def _of_key(key: ApiKey, said: Identity | None) -> Identity:
    """What the key says, filled up with what a trusted gateway says."""
    said = said or Identity()
    return replace(
        said,
        key=f"key:{key.name}",
        organisation=key.organisation or said.organisation,
        team=key.team or said.team,
        agent=key.agent or said.agent,
        user=key.user or said.user,
        roles=key.roles or said.roles,
    )


def _anonymous_key(shown: list[str], settings: IdentitySettings) -> str:
    if not shown:
        return "anonymous"
    salt = settings.salt.get_secret_value().encode()
    text = "\0".join(shown).encode("utf-8", "surrogateescape")
    return f"anonymous:{hmac.digest(salt, text, 'sha256').hex()[:_DIGEST_LENGTH]}"


def _trusted(headers: MultiMapping[str], peer: str, settings: IdentitySettings) -> Identity | None:
    """The identity that the headers of a trusted peer say; None where they say none."""
    names = settings.trusted_header
    if not names.trusted_networks or not _is_trusted(peer, settings):
        return None
    organisation = _said(headers, names.organisation)
    team = _said(headers, names.team)
    agent = _said(headers, names.agent)
    user = _said(headers, names.user)
    roles = tuple(filter(None, (role.strip() for role in _said(headers, names.roles).split(","))))
    if len(roles) > _MOST_ROLES:
        raise ClientFault(
            f"The header {names.roles} names more than {_MOST_ROLES} roles.", code="invalid_identity"
        )
    if not (organisation or team or agent or user):
        return None
    # Hashed with a separator that no header can hold, so that no choice of names can look like another caller's.
    digest = _digest(f"{organisation}\0{team}\0{agent}\0{user}")[:_DIGEST_LENGTH]
    return Identity(f"header:{digest}", organisation, team, agent, user, roles)


def _is_trusted(peer: str, settings: IdentitySettings) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in network for network in settings.trusted_header.trusted_networks)


def _said(headers: MultiMapping[str], name: str) -> str:
    values = headers.getall(name, ())
    if not values:
        return ""
    if len(values) > 1 or not _SAID.fullmatch(values[0]):
        raise ClientFault(
            f"The header {name} has to come once, with 1 to 256 printable ASCII characters.",
            code="invalid_identity",
        )
    return values[0].strip()
