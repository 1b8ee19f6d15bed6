"""Which headers travel on (C030)."""

import pytest
from hypothesis import given, strategies as st
from multidict import CIMultiDict

from proxy.core.runs import Identity
from proxy.dialects import DIALECTS
from proxy.errors import ClientFault
from proxy.exchange import Incoming
from proxy.headers import downstream_headers, is_sound, upstream_headers
from proxy.identity import Caller
from proxy.settings import Settings

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
