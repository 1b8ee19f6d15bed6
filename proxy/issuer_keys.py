"""The public keys of issuers: from a file or a URL, OIDC discovery included, kept and asked for again (F2).

Laws:
1. A caller cannot make this process hammer an issuer: a key that is not known is asked for once in a while, whoever
   wants it, and one asks for all.
2. Keys that were had before go on proving while the issuer cannot be reached, for so long as is configured. Without any
   nobody is believed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import ssl
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
from cachetools import LRUCache

from proxy.caller_tokens import Peeked, Token, fitting, peeked, usable_keys, verified
from proxy.errors import ClientFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from proxy.token_settings import JwtIssuer

LARGEST = 262_144
"""Bytes of a document with keys."""
MOST_KEYS = 100
MOST_PROVEN = 4096
"""Tokens that are not checked again while their keys are the same."""
DISCOVERY = "/.well-known/openid-configuration"
_OK = 200
log = logging.getLogger("callgate.identity")


class KeysFault(Exception):
    """The keys of an issuer cannot be had. The text says why."""


class _KeySet:
    """The keys of one issuer."""

    def __init__(self, issuer: JwtIssuer) -> None:
        self.issuer = issuer
        self.keys: list[dict[str, Any]] = []
        self.had_at = float("-inf")
        self.asked_at = float("-inf")
        self.asking: asyncio.Task[None] | None = None
        self.fault = ""
        """Why they could not be had when they were last asked for."""


class KeyRing:
    """Proves the tokens of the configured issuers. Use as an async context manager."""

    def __init__(
        self,
        issuers: Iterable[JwtIssuer],
        clock: Callable[[], float],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds, and never goes back; `wall_clock` epoch seconds."""
        self._wall_clock = wall_clock
        self._proven: LRUCache[bytes, tuple[object, Token]] = LRUCache(MOST_PROVEN)
        self._sets = {issuer.issuer: _KeySet(issuer) for issuer in issuers}
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Asks nobody yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes connections."""
        await self.close()

    async def close(self) -> None:
        """Asks no more, and closes connections."""
        for asking in [keys.asking for keys in self._sets.values() if keys.asking is not None]:
            asking.cancel()
            await asyncio.wait([asking])
        if self._session is not None:
            await self._session.close()

    async def proven(self, shown: Sequence[str]) -> Token | None:
        """The token among the keys that a caller shows; None: there is none of a configured issuer.

        Raises ClientFault: 401 for a token that does not hold, or for two of them; 503 where its issuer's keys cannot be
        had.
        """
        if not self._sets:
            return None
        tokens = {found.text: found for found in map(peeked, shown) if found and found.issuer in self._sets}
        if not tokens:
            return None
        if len(tokens) > 1:
            raise ClientFault(
                "The request shows two different tokens. Send one.", status=401, code="two_keys"
            )
        (token,) = tokens.values()
        keys = self._sets[token.issuer]
        try:
            await self._have(keys, token)
        except KeysFault:
            raise ClientFault(
                "The token cannot be checked: the keys of its issuer cannot be had at the moment.",
                status=503,
                code="issuer_unavailable",
            ) from None
        return self._verified(token, keys)

    def _verified(self, token: Peeked, keys: _KeySet) -> Token:
        """As `verified`; what held under these very keys holds until it expires. No token is kept, only its digest."""
        digest = hashlib.sha256(token.text.encode()).digest()
        under, known = self._proven.get(digest, (None, None))
        if known is not None and under is keys.keys and self._wall_clock() < int(known.claims["exp"]):
            return replace(known, text=token.text)
        found = verified(token, keys.issuer, keys.keys)
        self._proven[digest] = (keys.keys, replace(found, text=""))
        return found

    async def check(self) -> list[str]:
        """Asks every issuer: what is wrong, in words."""
        problems = []
        for keys in self._sets.values():
            try:
                keys.keys = await self._asked(keys.issuer)
            except KeysFault as fault:
                problems.append(f"identity.jwt: {keys.issuer.issuer}: {fault}")
        return problems

    async def _have(self, keys: _KeySet, token: Peeked) -> None:
        """The newest keys that are to be had without asking too often. Raises KeysFault where there are none."""
        now, issuer = self._clock(), keys.issuer
        if now - keys.had_at < issuer.cache_seconds and fitting(keys.keys, token):
            return
        may_ask = keys.asking is None and now - keys.asked_at >= issuer.refresh_seconds
        if may_ask:
            keys.asked_at = now
            keys.asking = asyncio.get_running_loop().create_task(self._ask(keys))
        if keys.asking is not None and (may_ask or not fitting(keys.keys, token)):
            # Shielded: whoever hangs up takes the answer from nobody else.
            await asyncio.shield(keys.asking)
        if not keys.keys:
            raise KeysFault(keys.fault)

    async def _ask(self, keys: _KeySet) -> None:
        """Asks once for all who wait."""
        try:
            keys.keys = await self._asked(keys.issuer)
            keys.had_at = self._clock()
        except KeysFault as fault:
            keys.fault = str(fault)
            if self._clock() - keys.had_at > keys.issuer.keep_seconds:
                keys.keys = []
            then = "those of before are used" if keys.keys else "its tokens are refused"
            log.warning("keys of %s: %s; %s", keys.issuer.issuer, fault, then)
        finally:
            keys.asking = None

    async def _asked(self, issuer: JwtIssuer) -> list[dict[str, Any]]:
        if issuer.jwks_file is not None:
            return _keys_in(await asyncio.to_thread(_read, issuer))
        url = issuer.jwks_url or await self._discovered(issuer)
        return _keys_in(await self._document(issuer, url))

    async def _discovered(self, issuer: JwtIssuer) -> str:
        found = await self._document(issuer, issuer.issuer.rstrip("/") + DISCOVERY)
        if not isinstance(found, dict) or found.get("issuer") != issuer.issuer:
            raise KeysFault("its discovery document is another issuer's")
        url = found.get("jwks_uri")
        try:
            issuer.check_url(url if isinstance(url, str) else "")
        except ValueError as error:
            msg = f"its discovery document: {error}"
            raise KeysFault(msg) from None
        return str(url)

    async def _document(self, issuer: JwtIssuer, url: str) -> object:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar())
        timeout = aiohttp.ClientTimeout(total=issuer.timeout_seconds)
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        try:
            # A redirect would lead away from the host that is trusted.
            async with self._session.get(
                url, timeout=timeout, allow_redirects=False, headers=headers
            ) as answer:
                if answer.status != _OK:
                    msg = f"{url} answers with status {answer.status}"
                    raise KeysFault(msg)
                raw = await answer.content.read(LARGEST + 1)
                while len(raw) <= LARGEST and (more := await answer.content.read(LARGEST + 1)):
                    raw += more
        except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError) as error:
            msg = f"{url} cannot be reached ({type(error).__name__})"
            raise KeysFault(msg) from None
        return _json(raw, url)


def _read(issuer: JwtIssuer) -> object:
    try:
        with open(issuer.jwks_file or "", "rb") as file:  # noqa: PTH123 - a bounded read
            return _json(file.read(LARGEST + 1), str(issuer.jwks_file))
    except OSError as error:
        msg = f"{issuer.jwks_file} cannot be read: {error.strerror}"
        raise KeysFault(msg) from None


def _json(raw: bytes, where: str) -> object:
    if len(raw) > LARGEST:
        msg = f"{where} holds more than {LARGEST} bytes"
        raise KeysFault(msg)
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        msg = f"{where} is not JSON"
        raise KeysFault(msg) from None
    return value


def _keys_in(document: object) -> list[dict[str, Any]]:
    keys = usable_keys(document)[:MOST_KEYS]
    if not keys:
        raise KeysFault("there is no public key for signatures in it")
    return keys
