"""Which headers travel on. Those of one hop stay on it (RFC 9110, 7.6.1), those that describe bytes we may have
changed are made anew, ours are said by us alone, and everything else passes as it came, in order and repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from multidict import MultiMapping

from proxy.errors import ClientFault
from proxy.exchange import Incoming
from proxy.identity import credential_header_names
from proxy.settings import Settings

ONE_HOP = frozenset(
    [
        "connection",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
_NOT_UPSTREAM = ONE_HOP | {
    "accept-encoding",
    "content-encoding",  # undone by the server
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "via",
    "x-real-ip",
}
_NOT_DOWNSTREAM = ONE_HOP | {
    "alt-svc",  # names another way to the provider, past this proxy
    "content-digest",
    "content-encoding",
    "content-length",
    "content-location",
    "content-md5",
    "digest",
    "location",
    "nel",
    "repr-digest",
    "report-to",
    "set-cookie",
    "strict-transport-security",
}
_OURS = "x-callgate-"
_FORWARDED = "x-forwarded-"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Anything else could end a header early, or cannot be sent as it came (bytes that are no UTF-8 are surrogates here).
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*")

Pairs = list[tuple[str, str]]


def is_sound(name: str, value: str) -> bool:
    """The header can be written without becoming two."""
    return bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))


def _named_by_connection(pairs: Iterable[tuple[str, str]]) -> frozenset[str]:
    values = (value for name, value in pairs if name.lower() == "connection")
    return frozenset(part.strip().lower() for value in values for part in value.split(","))


def upstream_headers(incoming: Incoming, settings: Settings, trace_headers: Mapping[str, str]) -> Pairs:
    """The headers of a request for the provider. `trace_headers` replace those of the same name.

    Raises ClientFault where one cannot be sent on as it came.
    """
    pairs = list(incoming.headers.items())
    dropped = _NOT_UPSTREAM | _named_by_connection(pairs) | _names_of_ours(settings)
    dropped |= {name.lower() for name in trace_headers}
    credential = incoming.caller.credential
    if credential is not None:
        dropped |= credential_header_names()
    kept: Pairs = []
    for name, value in pairs:
        lower = name.lower()
        if lower in dropped or lower.startswith((_OURS, _FORWARDED)):
            continue
        if not is_sound(name, value):
            raise ClientFault(
                "A header of the request holds characters that cannot be sent on.", code="invalid_header"
            )
        kept.append((lower, value))
    kept.extend(trace_headers.items())
    if credential is not None:
        kept.extend(incoming.dialect.credential(credential).items())
    return kept


def _names_of_ours(settings: Settings) -> frozenset[str]:
    said = settings.identity.trusted_header
    return frozenset({said.organisation, said.team, said.agent, said.user, said.roles, settings.headers.run})


def downstream_headers(headers: MultiMapping[str]) -> Pairs:
    """The headers of a provider's answer that the agent may see; unsound ones are left out."""
    pairs = list(headers.items())
    dropped = _NOT_DOWNSTREAM | _named_by_connection(pairs)
    named = ((name.lower(), value) for name, value in pairs)
    return [
        (name, value)
        for name, value in named
        if name not in dropped and not name.startswith(_OURS) and is_sound(name, value)
    ]
