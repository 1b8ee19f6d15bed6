"""Who is calling: a key of Callgate's own, a token, the headers of a trusted gateway, or nobody in particular (F2).

1. A key of Callgate's own, or a token for it, never travels on: with it goes a credential for the provider, or the request is refused.
   Where else such a key may stand, in whatever header or parameter, is looked for by `holds_own_key`.
2. No secret is kept: callers are told apart by digests.
3. Headers are believed by the address of the connection, never by what another header says.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from multidict import MultiMapping

from proxy import dialects, queries
from proxy.caller_tokens import Token, issuer_of, said_at
from proxy.core.runs import Identity
from proxy.errors import ClientFault
from proxy.settings import ApiKey, IdentitySettings, Settings
from proxy.signing import signing_key

_SAID = re.compile(r"[ -~]{1,256}")
_BETWEEN_WORDS = re.compile(r"[\s,;=\"']+")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,4096}")
_SAID_IN_TOKEN = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
_BETWEEN_ROLES = re.compile(r"[\s,]+")
_MOST_ROLES = 32
_MOST_TOKEN_ROLES = 256
_DIGEST_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and the key that goes to the provider in place of the caller's."""

    identity: Identity
    credential: str | None = field(default=None, repr=False)
    """None: the caller's own travels on; empty: none does."""
    key: ApiKey | None = field(default=None, repr=False)
    """The key of Callgate's own that was shown."""
    token: str = field(default="", repr=False)
    """The token that was shown where the provider expects its key."""
    is_known: bool = False
    """By a key of Callgate's own or by the headers of a trusted gateway."""


def shown_keys(headers: MultiMapping[str], path: str, settings: Settings) -> list[str]:
    """Everything that may be a token, in whatever header or parameter it stands."""
    own = headers.getall(settings.identity.token_header, ())
    return [*(_bare(value) for value in own), *_credentials(headers, path)]


def identify(
    headers: MultiMapping[str], path: str, peer: str, settings: Settings, token: Token | None = None
) -> Caller:
    """The caller of this request, without a credential yet (`equipped` gives one).

    `path` is canonical, with its query; `peer` the address of the connection ("" where there is none); `token` the proven
    one among `shown_keys`. Raises
    ClientFault: 401 for a caller who may not be anonymous or shows two keys, 400 for identity headers that cannot be
    read.
    """
    shown = list(_credentials(headers, path))
    key = _own_key(shown, settings.identity)
    said = _trusted(headers, peer, settings.identity)
    if token is not None:
        if key is not None:
            raise _two_keys()
        in_key_s_place = token.text if token.text in shown else ""
        return Caller(_of_token(token, said), token=in_key_s_place, is_known=True)
    if settings.identity.jwt and headers.getall(settings.identity.token_header, ()):
        raise ClientFault(
            f"The header {settings.identity.token_header} holds no token of a known issuer.",
            status=401,
            code="invalid_token",
        )
    if key is not None:
        return Caller(_of_key(key, said), key=key, is_known=True)
    if said is not None:
        return Caller(said, is_known=True)
    if settings.identity.anonymous == "refuse":
        raise ClientFault(
            "This caller is not known. Send a key that this Callgate was given in identity.api_keys, or a token of identity.jwt.",
            status=401,
            code="unknown_caller",
        )
    return Caller(Identity(key=_anonymous_key(shown, settings.identity)))


def equipped(caller: Caller, provider: str, settings: Settings) -> Caller:
    """The caller with the key for the provider of this name in the settings.

    Raises ClientFault (500) where a key of Callgate's own would have to travel on because none for the provider is
    configured.
    """
    own = caller.key.credentials.get(provider) if caller.key else None
    configured = settings.upstream.provider(provider)
    given = own if own is not None else configured.credential
    credential = given.get_secret_value() if given is not None else None
    signs = configured.signer is not None
    if credential is None and signs:
        credential = ""  # the signature takes its place
    if credential is None and (caller.key is not None or caller.token):
        raise _no_credential(caller.key, provider)
    # Where callers are told apart, the provider's key is for those who are known: else a caller would leave its own
    # layer, and keep the key, by sending none.
    told_by = settings.identity
    tells_apart = told_by.api_keys or told_by.jwt or told_by.trusted_header.trusted_networks
    if (credential or signs) and tells_apart and not caller.is_known:
        credential = None
    return replace(caller, credential=credential)


@cache
def credential_header_names() -> frozenset[str]:
    """The names of all headers, of any dialect, that may carry a key."""
    return frozenset(name for dialect in dialects.DIALECTS for name in dialect.credential_headers)


@cache
def credential_parameter_names() -> frozenset[str]:
    """The names of all query parameters, of any dialect, that may carry a key, in small letters."""
    return frozenset(name.lower() for dialect in dialects.DIALECTS for name in dialect.credential_parameters)


def holds_own_key(value: str, settings: IdentitySettings) -> bool:
    """A key of Callgate's own, or a token for it, stands in this header or parameter, whole or as a word, a scheme's or
    prefix's rest, or in what Basic encodes."""
    known, issuers = settings.keys_by_digest, settings.jwt
    if not known and not issuers:
        return False
    return any(
        _digest(word) in known or (issuers and issuer_of(word, issuers) is not None) for word in _words(value)
    )


def _words(value: str) -> Iterator[str]:
    yield value
    yield value.strip()
    for word in _BETWEEN_WORDS.split(value):
        yield word
        yield word.partition(".")[2]
        if _BASE64.fullmatch(word):
            with suppress(ValueError):
                plain = base64.b64decode(word + "=" * (-len(word) % 4)).decode("utf-8", "replace")
                yield plain
                yield from plain.split(":")


@cache
def _sorted_names() -> tuple[str, ...]:
    return tuple(sorted(credential_header_names()))


def _credentials(headers: MultiMapping[str], path: str) -> Iterator[str]:
    """Every key shown, in any header or parameter that may carry one: one dialect's key may come in another's header."""
    for name in _sorted_names():
        for value in headers.getall(name, ()):
            key = _bare(value)
            if signing := signing_key(value):
                # The signature is another one in each request.
                key = f"sigv4:{signing}"
            if key:
                yield key
    if "?" in path:
        for name, value in queries.parameters(path):
            if name in credential_parameter_names() and value.strip():
                yield value.strip()


def _bare(value: str) -> str:
    scheme, _, rest = value.strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else value.strip()


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _own_key(shown: list[str], settings: IdentitySettings) -> ApiKey | None:
    # Looked up by digest: how long that takes says nothing about any key.
    known = settings.keys_by_digest
    if not known:
        return None
    found = {name: known[name] for name in map(_digest, shown) if name in known}
    if len(found) > 1:
        raise _two_keys()
    return next(iter(found.values()), None)


def _two_keys() -> ClientFault:
    return ClientFault("The request shows two different keys. Send one.", status=401, code="two_keys")


def _no_credential(key: ApiKey | None, provider: str) -> ClientFault:
    what = f"The key {key.name!r} is" if key is not None else "A token is"
    where = f", or credentials.{provider} of this key" if key is not None else ""
    return ClientFault(
        f"{what} for this Callgate only and is not sent on, and no key for the provider is configured. "
        f"Set upstream.{provider}.credential{where}.",
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


def _of_token(token: Token, said: Identity | None) -> Identity:
    """What the token says, filled up with what a trusted gateway says. A caller's books are the issuer's subject's, whatever
    else a newer token says."""
    said, paths = said or Identity(), token.issuer.claims
    found = {
        name: _claimed(token.claims, getattr(paths, name), name) or getattr(said, name)
        for name in ("organisation", "team", "agent", "user")
    }
    roles = _claimed_roles(said_at(token.claims, paths.roles)) or said.roles
    digest = _digest(f"{token.issuer.issuer}\0{token.claims['sub']}")[:_DIGEST_LENGTH]
    return Identity(f"jwt:{digest}", **found, roles=roles, claims=token.claims)


def _claimed(claims: Mapping[str, Any], path: str, name: str) -> str:
    value = said_at(claims, path)
    if value is None:
        return ""
    if not isinstance(value, str) or not _SAID_IN_TOKEN.fullmatch(value):
        raise ClientFault(
            f"The token says the {name} in a form that cannot be used: one text of 1 to 256 printable characters is needed.",
            status=401,
            code="invalid_token",
        )
    return value


def _claimed_roles(value: object) -> tuple[str, ...]:
    listed = _BETWEEN_ROLES.split(value) if isinstance(value, str) else value
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(role, str) for role in listed):
        raise ClientFault("The token says no roles that can be read.", status=401, code="invalid_token")
    roles = tuple(role for role in dict.fromkeys(listed) if role)
    if len(roles) > _MOST_TOKEN_ROLES:
        # Cut, it would leave out what a rule forbids.
        raise ClientFault(
            f"The token names more than {_MOST_TOKEN_ROLES} roles.", status=401, code="invalid_token"
        )
    return roles


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
