"""Issuers of tokens as an operator writes them (F2)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from proxy.settings import IdentitySettings
from proxy.token_settings import JwtIssuer

ACME = {"issuer": "https://id.acme.example", "audience": "callgate"}


def test_only_signatures_that_checkers_cannot_forge_are_accepted() -> None:
    """RFC 8725: no secret is shared with whoever checks."""
    assert JwtIssuer.model_validate(ACME).algorithms == ("RS256", "ES256", "EdDSA")
    assert JwtIssuer.model_validate(ACME).audience == ("callgate",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
        {"audience": []},
        {"audience": ""},
        {"issuer": ""},
        {"issuer": "acme"},
        {"issuer": "http://id.acme.example"},
        {"jwks_url": "http://id.acme.example/keys"},
        {"jwks_url": "https://user:word@id.acme.example/keys"},
        {"jwks_url": "file:///etc/keys"},
        {"jwks_url": "https://id.acme.example/keys", "jwks_file": "keys.json"},
        {"leeway_seconds": -1},
    ],
)
def test_what_would_not_be_safe_is_refused(wrong: dict[str, Any]) -> None:
    """Fail closed: at the start, not at the first token."""
    with pytest.raises(ValidationError):
        JwtIssuer.model_validate(ACME | wrong)


@pytest.mark.parametrize(
    "good",
    [
        {"issuer": "http://127.0.0.1:8080"},
        {"issuer": "http://localhost:8080/realm"},
        {"issuer": "http://id.acme.example", "allow_http": True},
        {"issuer": "acme", "jwks_file": "keys.json"},
        {"issuer": "acme", "jwks_url": "https://id.acme.example/keys"},
    ],
)
def test_keys_come_over_tls_or_from_this_machine(good: dict[str, Any]) -> None:
    assert JwtIssuer.model_validate(ACME | good).audience == ("callgate",)


def test_an_issuer_stands_there_once() -> None:
    with pytest.raises(ValidationError, match="same issuer"):
        IdentitySettings.model_validate({"jwt": [ACME, ACME]})
