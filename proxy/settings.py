"""The settings tree: what an operator can say, with defaults that are safe on one machine.

Frozen values without a source: `config.load_settings` fills them from file and environment, `Settings()` is the
defaults. The sentence below a field is its documentation and the only place where it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from proxy.answer_settings import AnswerSettings
from proxy.approval_settings import ApprovalSettings
from proxy.channel_settings import ChannelSettings
from proxy.core.verdicts import CheckSettings, Mode
from proxy.kept_settings import KeptSettings
from proxy.limit_settings import LimitSettings
from proxy.policy_settings import Policy
from proxy.price_settings import PriceSettings
from proxy.provider_settings import Provider, Upstream, dialect_names, setting_name
from proxy.redaction import DEFAULT_KEYS
from proxy.result_settings import ResultSettings
from proxy.setting_kinds import MIB, Broken, Count, HeaderName, Network, Part, Port, Positive, Seconds
from proxy.token_settings import JwtIssuer

__all__ = [
    "POLICY_FAULT",
    "ApiKey",
    "IdentitySettings",
    "Policy",
    "Provider",
    "Settings",
    "Telemetry",
    "Upstream",
    "setting_name",
]

POLICY_FAULT = "policy.fault"
"""The part of the policy check that speaks when the engine gives no decision."""


class Listen(Part):
    """Where agents connect."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every interface."""
    port: Port = 8788
    """Port for agents; 0 takes a free one."""


class Admin(Part):
    """Health, readiness and, with a token, everything an operator may look at."""

    host: str = "127.0.0.1"
    """Address of the admin port; health probes of a cluster need 0.0.0.0."""
    port: Port = 8789
    """Admin port; 0 takes a free one."""
    token: SecretStr = SecretStr("")
    """What an operator has to send (Bearer, or the password of Basic). Empty: nothing but health is served."""


class ApiKey(Part):
    """A key of Callgate's own: whoever sends it is this caller."""

    hash: str
    """`sha256:` and the hex digest of the key; the key itself is written nowhere."""
    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Tells this key from others in records; unique."""
    organisation: str = ""
    """The caller's organisation."""
    team: str = ""
    """The caller's team: policies of this layer hold."""
    agent: str = ""
    """The caller's agent: policies of this layer hold."""
    user: str = ""
    """The person the agent works for, where a key belongs to one."""
    roles: tuple[str, ...] = ()
    """The caller's roles."""
    credentials: dict[str, SecretStr] = Field(default_factory=dict)
    """By name of the provider: the provider key that replaces this one; else `upstream.<provider>.credential` does."""

    @field_validator("hash")
    @classmethod
    def _is_digest(cls, digest: str) -> str:
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise ValueError(
                "should be `sha256:` and 64 hex digits, as `printf %s KEY | sha256sum` gives them"
            )
        return digest


class TrustedHeader(Part):
    """Identity said by a gateway in front. Believed only from the networks named here."""

    trusted_networks: tuple[Network, ...] = ()
    """CIDRs of peers whose headers are believed, by the address of the connection itself. None: nobody's are."""
    organisation: HeaderName = "x-callgate-organisation"
    """Header with the organisation."""
    team: HeaderName = "x-callgate-team"
    """Header with the team."""
    agent: HeaderName = "x-callgate-agent"
    """Header with the agent."""
    user: HeaderName = "x-callgate-user"
    """Header with the user."""
    roles: HeaderName = "x-callgate-roles"
    """Header with the roles, separated by commas."""


class IdentitySettings(Part):
    """Who a caller is."""

    api_keys: tuple[ApiKey, ...] = ()
    """Callgate's own keys."""
    trusted_header: TrustedHeader = TrustedHeader()
    """Headers of a gateway in front."""
    jwt: tuple[JwtIssuer, ...] = ()
    """Identity providers whose tokens are believed."""
    token_header: HeaderName = "x-callgate-token"  # noqa: S105 - a name, no secret
    """A header for tokens alone, beside those for keys, so that an agent can send its provider key too. Never travels on."""
    anonymous: Literal["allow", "refuse"] = "allow"
    """Callers without a known key or trusted header: `allow` (the organisation's layer alone holds) or `refuse`."""
    salt: SecretStr = SecretStr("callgate")
    """Mixed into the digest that tells anonymous callers apart; the same in all replicas."""

    @field_validator("api_keys")
    @classmethod
    def _are_unique(cls, keys: tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
        for field in ("name", "hash"):
            values = [getattr(key, field) for key in keys]
            if len(set(values)) != len(values):
                raise ValueError(f"two keys have the same {field}")
        return keys

    @field_validator("jwt")
    @classmethod
    def _are_told_apart(cls, issuers: tuple[JwtIssuer, ...]) -> tuple[JwtIssuer, ...]:
        names = [each.issuer for each in issuers]
        if len(set(names)) != len(names):
            raise ValueError("two entries have the same issuer: give one several audiences")
        return issuers

    @cached_property
    def keys_by_digest(self) -> Mapping[str, ApiKey]:
        """The keys by the hex digest of the key."""
        return {key.hash.removeprefix("sha256:"): key for key in self.api_keys}


class Checks(Part):
    """What the checks do."""

    modes: dict[str, Mode] = Field(default_factory=dict)
    """By dotted name, the longest match counts: `enforce`, `shadow` (recorded, never acts) or `off`."""
    history: Literal["repair", "refuse"] = "repair"
    """A call without a result in the history gets one that says so, or the request is refused (C7)."""
    max_argument_depth: Positive = 64
    """Deeper nested arguments are refused."""
    max_argument_bytes: Positive = 262_144
    """Longer arguments are refused."""


class Reask(Part):
    """A refused call goes back to the model inside the proxy."""

    per_turn: Count = 1
    """How often in a turn the model is told why and asked again."""


class Stream(Part):
    """What happens to a stream while a call is held."""

    heartbeat_seconds: Seconds = 15
    """The longest silence towards the agent while a call is held."""
    max_held_bytes: Positive = 4 * MIB
    """A held call longer than this is refused."""


class Faults(Part):
    """What follows when a part gives no answer: `closed` refuses, `open` records it and lets pass."""

    engine: Broken = "closed"
    """The policy engine gives no decision."""


class State(Part):
    """How much is remembered of runs."""

    max_runs: Positive = 100_000
    """Runs kept at once; the longest unused go first."""
    run_ttl_seconds: Seconds = 86_400
    """A run not heard of for so long is forgotten."""


class Audit(Part):
    """The trajectory journal: one JSON line a step and a decision (A9)."""

    path: str | None = None
    """A file, `-` for standard output, or null for none."""
    max_bytes: Count = 64 * MIB
    """The file is rotated before it grows beyond this; 0: never."""
    keep: Count = 5
    """Rotated files kept."""
    redact: tuple[str, ...] = DEFAULT_KEYS
    """Names of arguments and fields whose values are never written."""
    inputs: Literal["off", "calls"] = "off"
    """`calls`: what policies read for each decision about calls is written too, for `callgate replay --policy`. Such lines are
    long: they hold what the user said and, where rules read them, what tools returned."""


class Telemetry(Part):
    """What is traced. Where it goes is said by the OTEL_* variables, which OpenTelemetry's own SDK reads."""

    service_name: str = "callgate"
    """`service.name` of all signals, unless OTEL_SERVICE_NAME says otherwise."""
    capture_content: bool = False
    """Messages, arguments and results stand in spans."""
    run_trace: bool = True
    """Requests of one run share a trace, where the agent sends no trace of its own."""
    tool_spans: Literal["auto", "always", "never"] = "auto"
    """Spans for tools, made up from release of a call and arrival of its result; `auto`: where the agent sends no trace."""
    semconv: Literal["latest", "1.41"] = "latest"
    """Names on spans; `1.41` for viewers that do not know the newest ones."""
    metrics_compat: bool = True
    """Durations and tokens come under their older metric names too."""


class Headers(Part):
    """Names of headers between agents and Callgate."""

    run: HeaderName = "x-callgate-run"
    """Tells parallel runs of one caller apart; evidence in the history beats it."""


class Settings(Part):
    """All settings."""

    listen: Listen = Listen()
    """Where agents connect."""
    admin: Admin = Admin()
    """Health, readiness and the operator's view."""
    max_body_bytes: Positive = 32 * MIB
    """The largest request body and the largest whole answer, after decompression."""
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30
    """How long open answers may go on after SIGTERM."""
    upstream: Upstream = Upstream()
    """How providers are reached."""
    identity: IdentitySettings = IdentitySettings()
    """Who a caller is."""
    policy: Policy = Policy()
    """Which policies are evaluated."""
    checks: Checks = Checks()
    """What the checks do."""
    limits: LimitSettings = LimitSettings()
    """Budgets and brakes."""
    prices: PriceSettings = PriceSettings()
    """What models cost."""
    reask: Reask = Reask()
    """Refused calls go back to the model."""
    answers: AnswerSettings = AnswerSettings()
    """Final answers that are objected to."""
    approvals: ApprovalSettings = ApprovalSettings()
    """Calls that need a person."""
    stream: Stream = Stream()
    """What happens to a stream while a call is held."""
    denied: Literal["answer", "error"] = "answer"
    """How a denial is said: `answer`, a valid answer with status 200, or `error`, the dialect's error with 403."""
    channels: tuple[ChannelSettings, ...] = ()
    """Forms in which agents write calls in text; without them text is text."""
    results: ResultSettings = ResultSettings()
    """How the model reads what tools returned."""
    kept: KeptSettings = KeptSettings()
    """What agents may leave with the provider."""
    faults: Faults = Faults()
    """What follows when a part is down."""
    state: State = State()
    """How much is remembered of runs."""
    audit: Audit = Audit()
    """The trajectory journal."""
    telemetry: Telemetry = Telemetry()
    """What is traced."""
    headers: Headers = Headers()
    """Names of headers between agents and Callgate."""

    @model_validator(mode="after")
    def _name_providers(self) -> Self:
        known = {*dialect_names(), *self.upstream.named}
        for place, key in enumerate(self.identity.api_keys):
            for name in key.credentials:
                if name not in known:
                    raise ValueError(
                        f"identity.api_keys.{place}.credentials.{name}: there is no provider {name}; "
                        f"there are {', '.join(sorted(known))}"
                    )
        return self

    @cached_property
    def own_headers(self) -> frozenset[str]:
        """Names of the headers that are for Callgate alone and never travel on."""
        said = self.identity.trusted_header
        of_callers = {said.organisation, said.team, said.agent, said.user, said.roles}
        return frozenset({*of_callers, self.identity.token_header, self.headers.run})

    def for_checks(self) -> CheckSettings:
        """What the checks read of the settings."""
        modes = dict(self.checks.modes)
        if self.faults.engine == "open":
            modes.setdefault(POLICY_FAULT, Mode.SHADOW)
        checks = self.checks
        return CheckSettings(
            modes,
            checks.history == "repair",
            checks.max_argument_depth,
            checks.max_argument_bytes,
            self.results.rendering,
        )
