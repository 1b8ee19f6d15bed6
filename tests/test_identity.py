"""Who is calling (F2), and which key travels on."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from multidict import CIMultiDict

from proxy.core.runs import Identity
from proxy.dialects import DIALECTS
from proxy.errors import ClientFault
from proxy.identity import Caller, equipped, holds_own_key, identify
from proxy.settings import Settings, setting_name

DIALECT = DIALECTS[0]
NAME = setting_name(DIALECT.name)
PEER = "10.1.2.3"
PATH = "/v1/x"
HEADERS = [(dialect, name) for dialect in DIALECTS for name in dialect.credential_headers]


def digest(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def settings_of(identity: Mapping[str, Any], credential: str | None = "provider-key") -> Settings:
    upstream = {setting_name(dialect.name): {"credential": credential} for dialect in DIALECTS}
    return Settings.model_validate({"identity": identity, "upstream": upstream})


def caller_of(
    identity: Mapping[str, Any],
    *headers: tuple[str, str],
    peer: str = PEER,
    credential: str | None = "provider-key",
) -> Caller:
    settings = settings_of(identity, credential)
    return equipped(identify(CIMultiDict(headers), PATH, peer, settings), NAME, settings)


KEYS: dict[str, Any] = {
    "api_keys": [
        {"hash": digest("guard-k-1"), "name": "one", "agent": "cleaner", "roles": ["ops"]},
        {"hash": digest("guard-k-2"), "name": "two", "agent": "helper"},
    ]
}
TRUSTED = {"trusted_header": {"trusted_networks": ["10.0.0.0/8", "fd00::/8"]}}


def test_two_keys_are_two_callers_with_rules_of_their_own() -> None:
    """F2, C020."""
    one = caller_of(KEYS, ("authorization", "Bearer guard-k-1"))
    two = caller_of(KEYS, ("authorization", "Bearer guard-k-2"))

    assert one.identity == Identity("key:one", agent="cleaner", roles=("ops",))
    assert two.identity == Identity("key:two", agent="helper")


@pytest.mark.parametrize(("dialect", "header"), HEADERS)
def test_a_key_is_found_in_any_header_that_may_carry_one_and_never_travels_on(
    dialect: Any, header: str
) -> None:
    value = "bearer  guard-k-1" if header == "authorization" else "guard-k-1"

    for route in DIALECTS:
        settings = settings_of(KEYS)
        shown = identify(CIMultiDict({header: value}), PATH, PEER, settings)
        caller = equipped(shown, setting_name(route.name), settings)

        assert caller.identity.key == "key:one"
        assert caller.credential == "provider-key"


def test_a_key_of_callgate_s_own_without_one_for_the_provider_is_refused_with_what_to_set() -> None:
    with pytest.raises(ClientFault) as refused:
        caller_of(KEYS, ("authorization", "Bearer guard-k-1"), credential=None)

    assert f"upstream.{NAME}.credential" in refused.value.message
    assert "guard-k-1" not in refused.value.message
    assert refused.value.status == 500


def test_a_key_s_own_credential_goes_before_the_common_one() -> None:
    keys = {"api_keys": [{**KEYS["api_keys"][0], "credentials": {NAME: "own-key"}}]}

    assert caller_of(keys, ("authorization", "Bearer guard-k-1")).credential == "own-key"


def test_two_keys_in_one_request_are_refused() -> None:
    with pytest.raises(ClientFault) as refused:
        caller_of(KEYS, ("authorization", "Bearer guard-k-1"), ("authorization", "Bearer guard-k-2"))

    assert refused.value.status == 401


def test_an_unknown_key_is_anonymous_or_refused() -> None:
    header = ("authorization", "Bearer somebody")

    assert caller_of(KEYS, header).identity.key.startswith("anonymous:")
    with pytest.raises(ClientFault) as refused:
        caller_of({**KEYS, "anonymous": "refuse"}, header)
    assert refused.value.status == 401
    assert "somebody" not in refused.value.message


def test_the_digest_of_a_key_is_not_the_key() -> None:
    shown = ("authorization", f"Bearer {digest('guard-k-1')}")

    assert caller_of(KEYS, shown).identity.key.startswith("anonymous:")


def test_callers_with_different_provider_keys_are_different_and_no_key_is_kept() -> None:
    headers = [("authorization", f"Bearer sk-{number}") for number in range(3)]
    callers = [caller_of({}, header, credential=None) for header in headers]

    assert len({caller.identity.key for caller in callers}) == 3
    assert callers[0] == caller_of({}, headers[0], credential=None)
    assert callers[0].identity.key != caller_of({"salt": "other"}, headers[0]).identity.key
    assert "sk-0" not in repr(callers)
    assert callers[0].credential is None
    assert caller_of({}, credential=None).identity == Identity("anonymous")


def test_a_configured_credential_replaces_an_anonymous_caller_s() -> None:
    caller = caller_of({}, ("authorization", "Bearer placeholder"))

    assert caller.credential == "provider-key"
    assert "provider-key" not in repr(caller)


def test_whoever_leaves_its_own_key_at_home_does_not_get_the_provider_s() -> None:
    """F2: where callers are told apart, no caller leaves its layer and keeps the provider's key."""
    assert caller_of(KEYS, ("authorization", "Bearer another")).credential is None
    assert caller_of(KEYS).credential is None


@pytest.mark.parametrize("peer", ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"])
def test_a_trusted_gateway_says_who_calls(peer: str) -> None:
    caller = caller_of(
        TRUSTED,
        ("X-Callgate-Organisation", "acme"),
        ("X-Callgate-Team", "payments"),
        ("X-Callgate-Agent", "refunds"),
        ("X-Callgate-User", "ann@acme.example"),
        ("X-Callgate-Roles", "ops, , admin"),
        peer=peer,
    ).identity

    assert (caller.organisation, caller.team, caller.agent) == ("acme", "payments", "refunds")
    assert (caller.user, caller.roles) == ("ann@acme.example", ("ops", "admin"))
    assert caller.key.startswith("header:")


@pytest.mark.parametrize("peer", ["11.1.2.3", "::ffff:11.1.2.3", "fe80::1", "", "10.1.2.3:80", "unix"])
def test_nobody_else_s_headers_are_believed(peer: str) -> None:
    headers = [
        ("x-callgate-agent", "refunds"),
        ("x-callgate-roles", "admin"),
        ("x-forwarded-for", "10.1.2.3"),
    ]

    assert caller_of(TRUSTED, *headers, peer=peer).identity == Identity("anonymous")
    assert caller_of({}, *headers).identity == Identity("anonymous")


def test_names_that_join_to_the_same_text_are_different_callers() -> None:
    left = caller_of(TRUSTED, ("x-callgate-organisation", "a"), ("x-callgate-team", "b"))
    right = caller_of(TRUSTED, ("x-callgate-team", "a"), ("x-callgate-agent", "b"))

    assert left.identity.key != right.identity.key


def test_a_gateway_fills_up_what_a_key_leaves_open_and_changes_nothing_of_it() -> None:
    caller = caller_of(
        {**KEYS, **TRUSTED},
        ("authorization", "Bearer guard-k-1"),
        ("x-callgate-agent", "other"),
        ("x-callgate-user", "ann"),
        ("x-callgate-roles", "admin"),
    ).identity

    assert (caller.key, caller.agent, caller.user, caller.roles) == ("key:one", "cleaner", "ann", ("ops",))


@pytest.mark.parametrize(
    "headers",
    [
        [("x-callgate-agent", "a" * 257)],
        [("x-callgate-agent", "ä")],
        [("x-callgate-agent", "a\tb")],
        [("x-callgate-agent", "\udcff")],
        [("x-callgate-agent", "")],
        [("x-callgate-agent", "a"), ("x-callgate-agent", "b")],
        [("x-callgate-roles", ",".join(map(str, range(33))))],
    ],
)
def test_identity_headers_that_cannot_be_read_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ClientFault) as refused:
        caller_of(TRUSTED, *headers)

    assert refused.value.status == 400


@given(st.lists(st.tuples(st.sampled_from([name for _, name in HEADERS]), st.text(max_size=30)), max_size=4))
def test_no_header_of_a_stranger_makes_anything_but_a_stranger(headers: list[tuple[str, str]]) -> None:
    caller = caller_of({**KEYS, **TRUSTED}, *headers, peer="203.0.113.1")

    assert caller.identity.key.startswith("anonymous")
    assert caller.identity == Identity(caller.identity.key)


def test_a_key_may_come_as_a_parameter() -> None:
    """F1: some SDKs put it there."""
    name = next((name for dialect in DIALECTS for name in dialect.credential_parameters), None)
    if name is None:
        pytest.skip("no dialect looks for keys in the query yet")
    settings = settings_of(KEYS)

    own = identify(CIMultiDict(), f"/x?{name}=guard-k-1", PEER, settings)
    strangers = {
        identify(CIMultiDict(), path, PEER, settings).identity.key
        for path in (f"/x?{name}=a", f"/x?{name.upper()}=b", "/x", "/x?other=guard-k-1")
    }

    assert own.identity.key == "key:one"
    assert len(strangers) == 3
    with pytest.raises(ClientFault):
        identify(CIMultiDict({"authorization": "Bearer guard-k-2"}), f"/x?{name}=guard-k-1", PEER, settings)


def test_an_empty_credential_means_that_none_is_sent() -> None:
    known = ("authorization", "Bearer guard-k-1")

    assert caller_of(KEYS, known, credential="").credential == ""
    assert caller_of({}, ("authorization", "Bearer stranger"), credential="").credential == ""


def test_each_provider_has_the_credentials_of_its_name() -> None:
    key = {**KEYS["api_keys"][0], "credentials": {"near": "own-near"}}
    upstream = {name: {"dialect": DIALECT.name, "credential": f"common-{name}"} for name in ("near", "far")}
    settings = Settings.model_validate({"identity": {"api_keys": [key]}, "upstream": upstream})
    caller = identify(CIMultiDict({"authorization": "Bearer guard-k-1"}), PATH, PEER, settings)

    assert equipped(caller, "near", settings).credential == "own-near"
    assert equipped(caller, "far", settings).credential == "common-far"
    with pytest.raises(ClientFault, match=f"upstream.{NAME}.credential"):
        equipped(caller, NAME, settings)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("guard-k-1", True),
        (" Bearer  guard-k-1 ", True),
        ("realtime, prefix-of-a-key.guard-k-1, other", True),
        ('Signature key="guard-k-1"', True),
        (f"Basic {base64.b64encode(b'user:guard-k-1').decode()}", True),
        (f"Basic {base64.b64encode(b'guard-k-2').decode().rstrip('=')}", True),
        ("guard-k-3", False),
        ("xguard-k-1", False),
        ("", False),
        ("Basic " + "A" * 4097, False),
        ("\udcff", False),
    ],
)
def test_a_key_of_callgate_s_own_is_noticed_wherever_it_stands(value: str, holds: bool) -> None:
    assert holds_own_key(value, settings_of(KEYS).identity) is holds
    assert not holds_own_key(value, settings_of({}).identity)


def test_a_caller_who_signs_is_known_by_the_access_key() -> None:
    """F2: the signature is another one in each request. Nor is an access key id, which is no secret, a key of ours."""
    head = "AWS4-HMAC-SHA256 Credential={}/20260901/r/s/aws4_request, SignedHeaders=host, Signature={}"
    first, again, other = (
        caller_of({}, ("authorization", head.format(key, signature)))
        for key, signature in (("AKIDONE", "aa"), ("AKIDONE", "bb"), ("AKIDTWO", "aa"))
    )
    assert first.identity == again.identity != other.identity
    ours = {"api_keys": [{"hash": digest("AKIDONE"), "name": "one"}]}
    assert not caller_of(ours, ("authorization", head.format("AKIDONE", "aa"))).is_known


def test_the_signer_takes_the_place_of_a_key_for_those_who_may_have_one() -> None:
    """F2: not for strangers, where callers are told apart."""
    signer = {"region": "r", "service": "s", "access_key_id": "a", "secret_access_key": "b"}
    for identity, header, credential in (
        ({}, ("x-other", "1"), ""),
        (KEYS, ("authorization", "Bearer guard-k-1"), ""),
        (KEYS, ("authorization", "Bearer stranger"), None),
    ):
        given = {"identity": identity, "upstream": {NAME: {"signer": signer}}}
        settings = Settings.model_validate(given)
        caller = equipped(identify(CIMultiDict([header]), PATH, PEER, settings), NAME, settings)
        assert caller.credential == credential
