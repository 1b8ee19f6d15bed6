"""Which policies are evaluated, and by what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from proxy.bundle_settings import BundleSettings
from proxy.engines.fetching import BundleSource
from proxy.engines.opa_wire import OpaServer
from proxy.setting_kinds import Part, Positive, Seconds


class Opa(Part):
    """The OPA server that decides where `policy.engine` is `opa`."""

    url: str = "http://127.0.0.1:8181"
    """`http://host:port`, `https://host:port`, or `unix:///path` of its socket."""
    token: SecretStr = SecretStr("")
    """Sent as Bearer, where the server asks for one."""
    ca_file: Path | None = None
    """Certificates to trust instead of the system's, in PEM."""
    cert_file: Path | None = None
    """Certificate to show to the server (mutual TLS), in PEM."""
    key_file: Path | None = None
    """Its key, where that is not in the same file."""
    timeout_seconds: Seconds = 1.0
    """The longest a decision may take, whatever the server does."""
    start_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    """How long a start waits for a server that is not there yet."""
    manage: bool = True
    """Callgate puts its policies on the server; `false`: the server has them from its own bundles and is only asked."""
    breaker_failures: Positive = 5
    """After so many faults of the server in a row it is not asked any more: everything is refused at once."""
    breaker_seconds: Seconds = 2.0
    """After so long one decision tries it again."""
    connections: Positive = 100
    """Connections to the server at a time, kept open."""

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme == "unix" and not parts.netloc and len(parts.path) > 1:
            return url
        is_web = parts.scheme in {"http", "https"} and parts.hostname
        if not is_web or parts.query or parts.fragment or parts.username is not None:
            raise ValueError(
                "should be http://host:port, https://host:port or unix:///path, without a password in it"
            )
        return url

    @model_validator(mode="after")
    def _use_certificates(self) -> Self:
        named = [name for name in ("ca_file", "cert_file", "key_file") if getattr(self, name) is not None]
        if named and not self.url.startswith("https:"):
            raise ValueError(f"{named[0]} is for a url with https:")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs its cert_file")
        return self


class PolicyInShadow(Part):
    """Policies that are tried out: asked beside those in force, recorded where they differ, without effect."""

    folders: tuple[Path, ...] = ()
    """Folders with policies, beside the shipped ones."""
    data: Path | None = None
    """A file with rule data."""
    profile: Literal["starter", "strict"] = "starter"
    """What holds where nothing is said."""


class Policy(Part):
    """Which policies are evaluated, and how."""

    folders: tuple[Path, ...] = ()
    """Folders with further policies, beside the shipped ones."""
    bundle: BundleSettings = BundleSettings()
    """A bundle file with further policies, from a disk or a server."""
    watch_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    """How often folders and files are looked at, by `callgate serve`; what has changed and is the same at two looks is put in force. 0: never."""
    data: Path | None = None
    """A YAML or JSON file with roles, tools, argument constraints and limits, for those who write no Rego."""
    profile: Literal["starter", "strict"] = "starter"
    """What holds where nothing is said: `starter` lets unnamed tools pass, `strict` refuses them."""
    engine: Literal["embedded", "opa"] = "embedded"
    """What evaluates them: processes of Callgate's own, or an OPA server. Both decide the same."""
    opa: Opa = Opa()
    """The OPA server."""
    shadow: PolicyInShadow | None = None
    """A second set of policies that is only recorded; null: there is none."""
    deadline_seconds: Seconds = 1.0
    """The longest a decision of the embedded engine may take; then everything is refused (or `faults.engine` says otherwise)."""
    workers: Positive = 1
    """Workers of the embedded engine."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.engine == "opa" and not self.opa.manage and (self.folders or self.data or self.bundle.source):
            raise ValueError(
                "with opa.manage: false the policies are those of the server: folders and data are not read"
            )
        return self

    @property
    def in_shadow(self) -> Policy | None:
        """The policies in shadow, as if they were the configured ones; None: there are none."""
        if self.shadow is None:
            return None
        said = self.shadow
        return Policy(
            folders=said.folders,
            data=said.data,
            profile=said.profile,
            watch_seconds=self.watch_seconds,
            deadline_seconds=self.deadline_seconds,
        )

    @property
    def bundle_source(self) -> BundleSource | None:
        """Where the bundle file is; None: there is none."""
        return self.bundle.source

    @property
    def opa_server(self) -> OpaServer | None:
        """The server for the engine; None: the embedded engine decides."""
        if self.engine != "opa":
            return None
        opa = self.opa
        return OpaServer(
            url=opa.url,
            token=opa.token.get_secret_value(),
            ca_file=opa.ca_file,
            cert_file=opa.cert_file,
            key_file=opa.key_file,
            timeout=opa.timeout_seconds,
            start_wait=opa.start_seconds,
            manage=opa.manage,
            breaker_failures=opa.breaker_failures,
            breaker_seconds=opa.breaker_seconds,
            connections=opa.connections,
        )
