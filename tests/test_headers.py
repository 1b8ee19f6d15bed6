"""Which headers travel on (C030)."""

import hashlib

import pytest
from hypothesis import given, strategies as st
from multidict import CIMultiDict

from proxy.core.runs import Identity
from proxy.dialects import DIALECTS
from proxy.errors import ClientFault
from proxy.exchange import Incoming
from proxy.headers import downstream_headers, is_sound, upstream_headers, upstream_path
from proxy.identity import Caller
from proxy.settings import Settings, setting_name

DIALECT = DIALECTS[0]


def sent(
    headers: list[tuple[str, str]],
    credential: str | None = None,
    settings: Settings | None = None,
    trace: dict[str, str] | None = None,
) -> list[tuple[str, str]]:
    caller = Caller(Identity(), credential)
    incoming = Incoming(DIALECT, "POST", DIALECT.routes[0].path, CIMultiDict(headers), b"{}", caller, "")
    return upstream_headers(incoming, settings or Settings(), trace or {})


def test_headers_of_one_hop_stay_on_it_and_those_of_vendors_pass() -> None:
    passing = [
        ("Content-Type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "one"),
        ("anthropic-beta", "two"),
        ("OpenAI-Organization", "org"),
        ("x-stainless-lang", "python"),
        ("user-agent", "agent/1"),
    ]
    staying = [
        ("Accept-Encoding", "gzip, br, zstd"),
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "secret"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("Proxy-Authorization", "Basic Zm9vOmJhcg=="),
        ("Host", "localhost"),
        ("Content-Length", "2"),
        ("Cookie", "a=b"),
        ("Expect", "100-continue"),
        ("Forwarded", "for=10.0.0.1"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Callgate-Run", "r1"),
        ("X-Callgate-Anything", "x"),
        ("X-HTTP-Method-Override", "POST"),
        ("X-HTTP-Method", "POST"),
        ("X-Method-Override", "POST"),
    ]

    assert sent([*passing, *staying]) == [(name.lower(), value) for name, value in passing]


def test_headers_with_names_of_the_operator_s_own_do_not_travel_either() -> None:
    settings = Settings.model_validate(
        {"headers": {"run": "x-run"}, "identity": {"trusted_header": {"user": "x-user-mail"}}}
    )

    assert sent([("X-Run", "1"), ("X-User-Mail", "ann@acme.example")], settings=settings) == []


def test_a_credential_takes_the_place_of_every_key_shown() -> None:
    shown = [(name, "callers-key") for dialect in DIALECTS for name in dialect.credential_headers]

    assert sent(shown) == shown
    assert sent(shown, credential="provider-key") == list(DIALECT.credential("provider-key").items())


def test_an_empty_credential_takes_every_key_away_and_puts_none_there() -> None:
    shown = [(name, "callers-key") for dialect in DIALECTS for name in dialect.credential_headers]

    assert sent([*shown, ("x-note", "1")], credential="") == [("x-note", "1")]


@pytest.mark.parametrize(
    ("header", "value"), [("api-key", "k"), ("authorization", "Bearer k"), ("x-gateway-key", "k")]
)
def test_a_credential_goes_in_the_header_that_the_operator_says(header: str, value: str) -> None:
    name = setting_name(DIALECT.name)
    settings = Settings.model_validate({"upstream": {name: {"credential_header": header}}})
    shown = [(header, "callers"), ("authorization", "Bearer callers")]

    assert sent(shown, credential="k", settings=settings) == [(header, value)]
    assert sent([("x-a", "1")], settings=settings) == [("x-a", "1")]


OWN = {"api_keys": [{"name": "one", "hash": f"sha256:{hashlib.sha256(b'guard-k-1').hexdigest()}"}]}


@pytest.mark.parametrize("credential", [None, "", "provider-key"])
def test_a_key_of_callgate_s_own_travels_in_no_header_and_no_parameter(credential: str | None) -> None:
    """F2: also where nobody looks for one."""
    settings = Settings.model_validate({"identity": OWN})
    shown = [
        ("authorization", "Bearer guard-k-1"),
        ("x-goog-api-key", "guard-k-1"),
        ("x-unknown", "Token guard-k-1"),
        ("sec-websocket-protocol", "realtime, some-api-key.guard-k-1"),
    ]
    path = "/v1/x?a=1&key=guard-k-1&unknown=guard%2Dk-1&b=2"
    incoming = Incoming(DIALECT, "POST", path, CIMultiDict(shown), b"", Caller(Identity(), credential), "")

    assert "guard-k-1" not in str(sent(shown, credential=credential, settings=settings))
    assert upstream_path(incoming, settings) == "/v1/x?a=1&b=2"


def test_a_path_travels_on_as_it_came_unless_it_carries_a_key_that_is_replaced() -> None:
    names = {name for dialect in DIALECTS for name in dialect.credential_parameters}
    path = "/v1/x?a=%20&" + "".join(f"{name}=k&" for name in sorted(names)) + "b"

    def path_for(credential: str | None) -> str:
        caller = Caller(Identity(), credential)
        return upstream_path(Incoming(DIALECT, "GET", path, CIMultiDict(), b"", caller, ""), Settings())

    assert path_for(None) == path
    assert path_for("provider-key") == path_for("") == "/v1/x?a=%20&b"


def test_our_span_takes_the_place_of_the_caller_s() -> None:
    headers = [("Traceparent", "theirs"), ("tracestate", "kept")]

    assert sent(headers, trace={"traceparent": "ours"}) == [("tracestate", "kept"), ("traceparent", "ours")]


@pytest.mark.parametrize("value", ["a\r\nx-injected: 1", "a\nb", "a\0b", "\udcff", "a\x7f"])
def test_a_header_that_could_become_two_is_refused(value: str) -> None:
    with pytest.raises(ClientFault) as refused:
        sent([("x-note", value)])

    assert refused.value.status == 400
    assert downstream_headers(CIMultiDict([("x-note", value), ("x-other", "1")])) == [("x-other", "1")]


@given(st.text(), st.text())
def test_a_sound_header_has_one_line(name: str, value: str) -> None:
    if is_sound(name, value):
        assert len(f"{name}: {value}".encode().splitlines()) == 1
        assert ":" not in name


def test_of_an_answer_the_agent_gets_what_it_may_use() -> None:
    passing = [
        ("Content-Type", "application/json"),
        ("request-id", "req_123"),
        ("x-ratelimit-remaining-requests", "1"),
        ("anthropic-ratelimit-tokens-limit", "1"),
        ("retry-after", "1"),
        ("vary", "a"),
        ("vary", "b"),
    ]
    staying = [
        ("Connection", "x-hop"),
        ("X-Hop", "1"),
        ("Content-Encoding", "gzip"),
        ("Content-Length", "10"),
        ("Transfer-Encoding", "chunked"),
        ("Set-Cookie", "a=b"),
        ("Alt-Svc", 'h3=":443"'),
        ("Strict-Transport-Security", "max-age=1"),
        ("X-Callgate-Outcome", "forged"),
        ("Location", "https://elsewhere.example"),
    ]

    lower = [(name.lower(), value) for name, value in passing]
    assert downstream_headers(CIMultiDict([*passing, *staying])) == lower


@pytest.mark.parametrize(
    ("sent_by_provider", "seen_by_agent"),
    [
        ("application/json; charset=utf-7", "application/json"),
        ('text/event-stream;charset="UTF-16"', "text/event-stream"),
        ("application/json; charset=utf-8; charset=utf-7", "application/json"),
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
        ("text/event-stream; charset=UTF-8", "text/event-stream; charset=UTF-8"),
        ("text/html; charset=iso-8859-1", "text/html; charset=iso-8859-1"),
        ("multipart/mixed; boundary=x", "multipart/mixed; boundary=x"),
    ],
)
def test_bytes_are_read_by_the_agent_as_they_were_judged(sent_by_provider: str, seen_by_agent: str) -> None:
    """D5: in some character sets plain letters stand for quotes and braces."""
    headers = CIMultiDict({"content-type": sent_by_provider})
    assert downstream_headers(headers) == [("content-type", seen_by_agent)]
