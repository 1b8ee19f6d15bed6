"""Where a bundle file with policies comes from."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from proxy.engines.fetching import BundleSource
from proxy.setting_kinds import MIB, HeaderName, Part, Positive, Seconds


class BundleSettings(Part):
    """A `tar.gz` with policies: a file, or a URL that is asked again and again."""

    path: Path | None = None
    """A bundle file, made by Callgate, `opa build` or `tar`; read anew when it changes."""
    url: str = ""
    """A bundle file on a server, instead of `path`. Fetched again where its ETag or Last-Modified has changed; redirects are not followed."""
    poll_seconds: Seconds = 60.0
    """How often the server is asked; after failures more and more rarely, up to ten minutes."""
    token: SecretStr = SecretStr("")
    """Sent as Bearer to the server."""
    headers: dict[HeaderName, SecretStr] = Field(default_factory=dict)
    """Further headers for the server."""
    ca_file: Path | None = None
    """Certificates to trust instead of the system's, in PEM."""
    max_bytes: Positive = 16 * MIB
    """The largest bundle, packed and unpacked."""
    timeout_seconds: Seconds = 10.0
    """The longest that fetching may take."""
    allow_http: bool = False
    """Whether a url without TLS may lie elsewhere than on this machine."""
    cache: Path | None = None
    """A file where the last bundle in force is kept."""
    required_at_start: bool = True
    """There is no start without the server; `false`: the bundle kept in `cache` serves until the server answers."""

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (
            parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None
        ):
            raise ValueError("should be https://host/path, without a password in it")
        return url

    @field_validator("headers")
    @classmethod
    def _are_one_line(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        if not all(each.get_secret_value().isprintable() for each in headers.values()):
            raise ValueError("a value should be one line")
        return headers

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.path is not None and self.url:
            raise ValueError("path and url: there is one bundle, name one of them")
        if self.url.startswith("http:") and not self.allow_http and not _is_here(self.url):
            raise ValueError("url: policies come over https; allow_http: true takes that risk")
        if not self.required_at_start and self.cache is None:
            raise ValueError("required_at_start: false needs a cache")
        if not self.token.get_secret_value().isprintable():
            raise ValueError("token: should be one line")
        return self

    @property
    def source(self) -> BundleSource | None:
        """For the engines; None: no bundle is named."""
        if self.path is None and not self.url:
            return None
        return BundleSource(
            path=self.path,
            url=self.url,
            token=self.token.get_secret_value(),
            headers={name: value.get_secret_value() for name, value in self.headers.items()},
            ca_file=self.ca_file,
            most_bytes=self.max_bytes,
            timeout=self.timeout_seconds,
            cache=self.cache if self.url else None,
            required=self.required_at_start,
        )


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
