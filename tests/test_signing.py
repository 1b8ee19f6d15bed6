"""Signatures for AWS: a foreign one never travels on, ours is the one that AWS would expect."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from proxy.errors import ClientFault, UpstreamFault
from proxy.provider_settings import Signer as SignerSettings, Upstream
from proxy.signing import (
    Signer,
    Signers,
    is_signed_here,
    refuse_foreign_signature,
    signing_key,
    without_signature,
)
from proxy.upstream import UpstreamRequest

SIGNED = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260901/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature="
NOW = datetime(2026, 9, 1, 10, 0, 0, tzinfo=UTC)
GIVEN = SignerSettings(
    region="us-east-1",
    service="bedrock",
    access_key_id=SecretStr("AKIDEXAMPLE"),
    secret_access_key=SecretStr("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
)


def request_of(
    body: bytes = b"{}", url: str = "https://bedrock.test/model/a%3A0/converse"
) -> UpstreamRequest:
    headers = [("content-type", "application/json"), ("authorization", SIGNED), ("x-amz-date", "old")]
    return UpstreamRequest("POST", url, headers, body, 10.0)


def test_a_caller_is_known_by_the_access_key_and_not_by_a_signature_that_changes() -> None:
    """F2: else no run would be recognised."""
    assert signing_key(f"{SIGNED}abc") == signing_key(f"{SIGNED}def") == "AKIDEXAMPLE"
    assert signing_key("Bearer AWS4-HMAC-SHA256") is None
    assert signing_key("") is None


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ([("authorization", f"{SIGNED}abc")], "/x"),
        ([("authorization", " aws4-ecdsa-p256-sha256 x")], "/x"),
        ([], "/x?a=1&X-Amz-Signature=abc"),
    ],
)
def test_a_foreign_signature_is_refused_with_what_to_set(headers: list[tuple[str, str]], path: str) -> None:
    with pytest.raises(ClientFault, match=r"upstream\.bedrock\.signer") as fault:
        refuse_foreign_signature(headers, path, "bedrock")
    assert (fault.value.status, fault.value.code) == (500, "credential_missing")
    refuse_foreign_signature([("authorization", "Bearer x")], "/x", "bedrock")


def test_headers_of_a_signature_go_with_it() -> None:
    headers = [("x-amz-date", "1"), ("x-amz-security-token", "t"), ("x-amzn-bedrock-trace", "1")]
    assert without_signature(headers) == [("x-amzn-bedrock-trace", "1")]


async def test_the_signature_depends_on_all_that_is_sent_and_on_the_time() -> None:
    signer = Signer(GIVEN)
    made = [
        dict((await signer.signed(request, now)).headers)
        for request, now in (
            (request_of(), NOW),
            (request_of(), NOW),
            (request_of(b'{"a":1}'), NOW),
            (request_of(url="https://bedrock.test/model/b/converse"), NOW),
            (request_of(), NOW.replace(second=1)),
        )
    ]
    assert made[0] == made[1]
    assert len({headers["authorization"] for headers in made}) == 4
    assert made[0]["x-amz-date"] == "20260901T100000Z"
    assert made[0]["content-type"] == "application/json"


async def test_the_chain_of_botocore_is_asked_where_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: roles of a cluster or a machine, and profiles."""
    file = tmp_path / "credentials"
    file.write_text(
        "[team]\naws_access_key_id = AKIDOFTEAM\naws_secret_access_key = s\naws_session_token = t\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    signer = Signer(SignerSettings(region="us-east-1", service="bedrock", chain=True, profile="team"))
    headers = dict((await signer.signed(request_of(), NOW)).headers)
    assert "Credential=AKIDOFTEAM/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "t"
    nobody = Signer(SignerSettings(region="us-east-1", service="bedrock", chain=True, profile="nobody"))
    with pytest.raises(UpstreamFault) as fault:
        await nobody.signed(request_of(), NOW)
    assert fault.value.code == "credential_missing"


async def test_only_what_is_to_be_signed_is_signed() -> None:
    request = request_of()
    assert await Signers(Upstream()).signed(request) is request
    assert is_signed_here(GIVEN, "")
    assert not is_signed_here(GIVEN, "key")
    assert not is_signed_here(GIVEN, None)
    assert not is_signed_here(None, "")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"access_key_id": "a"},
        {"chain": True, "access_key_id": "a", "secret_access_key": "b"},
        {"chain": True, "session_token": "t"},
    ],
)
def test_a_signer_has_keys_or_the_chain(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SignerSettings.model_validate({"region": "us-east-1", "service": "bedrock", **given})
