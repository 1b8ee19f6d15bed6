"""Which headers and parameters travel on. Those of one hop stay on it (RFC 9110, 7.6.1), those that describe bytes we may have
changed are made anew, ours are said by us alone, and everything else passes as it came, in order and repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from multidict import MultiMapping

from proxy import queries
from proxy.errors import ClientFault
from proxy.exchange import Incoming
from proxy.identity import credential_header_names, credential_parameter_names, holds_own_key
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
    # Would make another request of the one that was looked at.
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
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
_PLAIN_CHARSET = re.compile(
    r"\A[^;]*;\s*charset\s*=\s*\"?(?:utf-?8|us-ascii|ascii|iso-8859-\d+|windows-125\d)\"?\s*\Z", re.IGNORECASE
)
_OURS = "x-callgate-"
_SAID_ON_THE_WAY = (_OURS, "x-forwarded-")
_NONE: frozenset[str] = frozenset()
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Anything else could end a header early, or cannot be sent as it came (bytes that are no UTF-8 are surrogates here).
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*")

Pairs = list[tuple[str, str]]


@lru_cache(maxsize=1024)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def is_sound(name: str, value: str) -> bool:
    """The header can be written without becoming two."""
    # Nearly all values are plain; the pattern costs much more.
    plain = value.isascii() and value.isprintable()
    return (plain or _VALUE.fullmatch(value) is not None) and _is_name(name)


def _named_by_connection(headers: MultiMapping[str]) -> frozenset[str]:
    values = headers.getall("connection", ())
    if not values or (len(values) == 1 and values[0].lower() in {"keep-alive", "close"}):
        return _NONE
    return frozenset(part.strip().lower() for value in values for part in value.split(","))


def upstream_headers(incoming: Incoming, settings: Settings, trace_headers: Mapping[str, str]) -> Pairs:
    """The headers of a request for the provider. `trace_headers` replace those of the same name.

    Raises ClientFault where one cannot be sent on as it came.
    """
    dropped = settings.own_headers
    credential = incoming.caller.credential
    own = settings.upstream.provider(incoming.provider).credential_header
    if credential is not None:
        dropped |= credential_header_names() | ({own} if own else _NONE)
    if trace_headers:
        dropped |= {name.lower() for name in trace_headers}
    dropped |= _named_by_connection(incoming.headers)
    kept: Pairs = []
    for name, value in incoming.headers.items():
        lower = name.lower()
        if lower in _NOT_UPSTREAM or lower in dropped or lower.startswith(_SAID_ON_THE_WAY):
            continue
        if not is_sound(lower, value):
            raise ClientFault(
                "A header of the request holds characters that cannot be sent on.", code="invalid_header"
            )
        if not holds_own_key(value, settings.identity):
            kept.append((lower, value))
    kept.extend(trace_headers.items())
    if credential and own:
        kept.append((own, f"Bearer {credential}" if own == "authorization" else credential))
    elif credential:
        kept.extend(incoming.dialect.credential(credential).items())
    return kept


def upstream_path(incoming: Incoming, settings: Settings) -> str:
    """The path of a request for the provider: as it came, less the parameters that carry a key which does not travel."""
    path = incoming.path
    if "?" not in path:
        return path
    replaced = credential_parameter_names() if incoming.caller.credential is not None else _NONE
    return queries.without(
        path, lambda name, value: name in replaced or holds_own_key(value, settings.identity)
    )


def _in_plain_letters(name: str, value: str) -> str:
    """The value; a content type less a character set in which the bytes that were judged would read as others."""
    if name.lower() != "content-type" or "charset" not in value.lower() or _PLAIN_CHARSET.search(value):
        return value
    return value.partition(";")[0].strip()


def downstream_headers(headers: MultiMapping[str]) -> Pairs:
    """The headers of a provider's answer that the agent may see; unsound ones are left out."""
    dropped = _named_by_connection(headers)
    named = ((name.lower(), _in_plain_letters(name, value)) for name, value in headers.items())
    return [
        (name, value)
        for name, value in named
        if not (name in _NOT_DOWNSTREAM or name in dropped or name.startswith(_OURS))
        and is_sound(name, value)
    ]
