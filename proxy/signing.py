"""Requests signed for AWS (Signature Version 4): what an agent signed holds no longer once host or body are others, so
the proxy drops that signature and makes its own.

1. A foreign signature never travels on: it could not hold, and would only fail in a way that nobody understands.
2. What is signed is the request as it is sent, anew for each try.
3. Credentials that have to be fetched are fetched off the event loop.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from proxy.errors import ClientFault, UpstreamFault

if TYPE_CHECKING:
    from proxy.provider_settings import Signer as SignerSettings, Upstream as UpstreamSettings
    from proxy.upstream import UpstreamRequest

SIGNATURE_HEADERS = frozenset(
    {"x-amz-content-sha256", "x-amz-date", "x-amz-region-set", "x-amz-security-token", "x-amz-signature"}
)
"""Headers that belong to a signature, beside `authorization`."""
_SIGNED = re.compile(r"AWS4-[A-Z0-9-]+\s", re.IGNORECASE)
_ACCESS_KEY = re.compile(r"AWS4-[A-Z0-9-]+\s+(?:.*[\s,])?Credential=([A-Za-z0-9_]{4,128})/", re.IGNORECASE)
_PRESIGNED = re.compile(r"[?&]x-amz-(?:signature|credential)=", re.IGNORECASE)
_TIMESTAMP = "%Y%m%dT%H%M%SZ"
_TOO_OLD = "The AWS credentials that requests are signed with cannot be had."


def signing_key(authorization: str) -> str | None:
    """The access key id that this header's signature was made with; None: it is no signature. Unlike the signature it is
    the same in each request of a caller."""
    found = _ACCESS_KEY.match(authorization.strip())
    return found[1] if found else None


def without_signature(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers less those that belong to a caller's signature."""
    return [(name, value) for name, value in headers if name not in SIGNATURE_HEADERS]


def refuse_foreign_signature(headers: Iterable[tuple[str, str]], path: str, provider: str) -> None:
    """Nothing, where no signature of the caller's would travel on. Raises ClientFault, which says what to configure."""
    signed = any(name == "authorization" and _SIGNED.match(value.lstrip()) for name, value in headers)
    if signed or _PRESIGNED.search(path):
        raise ClientFault(
            "The request is signed for AWS, and the signature cannot hold once the request goes on from here. Set "
            f"upstream.{provider}.signer (or .credential, a bearer key), or let the agent send a bearer key.",
            status=500,
            code="credential_missing",
        )


class Signer:
    """Signs with the credentials of one setting."""

    def __init__(self, settings: SignerSettings) -> None:
        """Nothing is fetched yet. Needs botocore (`pip install 'callgate[bedrock]'`)."""
        self._settings = settings
        self._credentials: Any = None

    async def signed(self, request: UpstreamRequest, now: datetime) -> UpstreamRequest:
        """The request with a signature of this time (UTC). Raises UpstreamFault where there are no credentials."""
        frozen = await self._frozen()
        kept = [(name, value) for name, value in request.headers if name != "authorization"]
        made = signature_headers(request, frozen, self._settings.region, self._settings.service, now)
        return replace(request, headers=[*without_signature(kept), *made.items()])

    async def _frozen(self) -> Any:
        """The credentials of now: temporary ones are fetched again before they end, in a thread."""
        try:
            if self._credentials is None:
                self._credentials = await asyncio.to_thread(self._found)
            if not self._settings.chain:
                return self._credentials.get_frozen_credentials()
            return await asyncio.to_thread(self._credentials.get_frozen_credentials)
        except Exception as error:  # noqa: BLE001  # botocore and what it asks raise whatever they like
            said = f"{_TOO_OLD} ({type(error).__name__})"
            raise UpstreamFault(said, status=500, code="credential_missing") from None

    def _found(self) -> Any:
        from botocore import credentials, session  # noqa: PLC0415  # only installed where something is signed

        given = self._settings
        if given.access_key_id is not None and given.secret_access_key is not None:
            token = given.session_token.get_secret_value() if given.session_token else None
            secret = given.secret_access_key.get_secret_value()
            return credentials.Credentials(given.access_key_id.get_secret_value(), secret, token)
        found = session.Session(profile=given.profile).get_credentials()
        if found is None:
            raise LookupError("no credentials")
        return found


def signature_headers(
    request: UpstreamRequest, credentials: Any, region: str, service: str, now: datetime
) -> Mapping[str, str]:
    """The headers that sign the request (method, URL, content type, body) with frozen credentials at this time."""
    from botocore.auth import SigV4Auth  # noqa: PLC0415  # only installed where something is signed
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415  # as above, only there

    kinds = {name: value for name, value in request.headers if name == "content-type"}
    asked = AWSRequest(request.method, request.url, kinds, request.body)
    asked.context["timestamp"] = now.strftime(_TIMESTAMP)
    asked.headers["X-Amz-Date"] = asked.context["timestamp"]
    if credentials.token:
        asked.headers["X-Amz-Security-Token"] = credentials.token
    auth = SigV4Auth(credentials, service, region)
    text = auth.string_to_sign(asked, auth.canonical_request(asked))
    signed = ", ".join(
        (
            f"AWS4-HMAC-SHA256 Credential={auth.scope(asked)}",
            f"SignedHeaders={auth.signed_headers(auth.headers_to_sign(asked))}",
            f"Signature={auth.signature(text, asked)}",
        )
    )
    made = {name.lower(): value for name, value in asked.headers.items() if name.lower() not in kinds}
    return {**made, "authorization": signed}


class Signers:
    """The signers of all providers that have one."""

    def __init__(self, settings: UpstreamSettings) -> None:
        """One for each provider with the setting `signer`."""
        self._settings = settings
        self._made: dict[str, Signer] = {}

    async def signed(self, request: UpstreamRequest) -> UpstreamRequest:
        """The request as it is sent now; the very one where it is not to be signed. Raises UpstreamFault."""
        if not request.signed_for:
            return request
        settings = self._settings.provider(request.signed_for).signer
        if settings is None:
            raise UpstreamFault(_TOO_OLD, status=500, code="credential_missing")
        signer = self._made.setdefault(request.signed_for, Signer(settings))
        return await signer.signed(request, datetime.now(UTC))


def is_signed_here(provider: SignerSettings | None, credential: str | None) -> bool:
    """Requests of this caller are signed by the proxy: it has a signer, and sends no key instead."""
    return provider is not None and credential == ""
