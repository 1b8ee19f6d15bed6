"""Secrets are taken out of what is written down (B4)."""

import json

import pytest
from hypothesis import given, strategies as st

from proxy.redaction import READ_AT_MOST, REDACTED, SUMMARY_LENGTH, Redactor

SECRET = "hunter2-CANARY"
redactor = Redactor()


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db_password",
        "apiKey",
        "X-Api-Key",
        "accessToken",
        "Authorization",
        "client-secret",
        "token2",
        "PWD",
    ],
)
def test_what_stands_under_a_secret_key_is_not_written(key: str) -> None:
    assert json.loads(redactor.json(json.dumps({key: SECRET, "id": 7}))) == {key: REDACTED, "id": 7}


@pytest.mark.parametrize("key", ["max_tokens", "tokens_in", "secretary", "order_id", "pinned", "keyboard"])
def test_other_keys_keep_their_values(key: str) -> None:
    assert json.loads(redactor.json(json.dumps({key: "value"}))) == {key: "value"}


def test_a_secret_may_be_an_object_or_a_list() -> None:
    text = json.dumps({"a": [{"credentials": {"user": SECRET}}, {"tokens": 3, "secret": [SECRET]}]})

    assert SECRET not in redactor.json(text)


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}&next=1",
        f"Authorization: Bearer {SECRET}",
        f'{{"password": "{SECRET}", cut off',
        f'{{"password": "a\\"{SECRET}", cut off',
        f"{{'api_key': '{SECRET}'",
        f'{{"body": "{{\\"password\\": \\"{SECRET}\\"}}", cut off',
        f'{{"pass\\u0077ord": "{SECRET}", cut off',
        f'{{"password": {{"value": "{SECRET}"}}, cut off',
        json.dumps({"body": json.dumps({"password": SECRET})}),
        json.dumps({"body": json.dumps({"inner": json.dumps({"password": SECRET})})}),
        f"https://user:{SECRET}@db.example/x",
    ],
)
def test_secrets_in_other_texts_are_found_by_their_key(text: str) -> None:
    assert "CANARY" not in redactor.json(text)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop",
        "ghp_abcdefghijklmnop1234",
        "AKIAABCDEFGHIJKLMNOP",
        "Bearer abcdefghijkl",
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
        "xoxb-1234567890-abcdef",
    ],
)
def test_secrets_are_found_by_their_look(secret: str) -> None:
    assert json.loads(redactor.json(json.dumps({"note": f"take {secret} please"}))) == {
        "note": f"take {REDACTED} please"
    }


def test_cards_and_addresses_are_left_alone_unless_asked_for() -> None:
    text = "pay 4111 1111 1111 1111 or 4111111111111112, write to ann@example.org"

    assert redactor.text(text) == text
    assert Redactor(cards=True, e_mails=True).text(text) == (
        f"pay {REDACTED} or 4111111111111112, write to {REDACTED}"
    )
    assert Redactor(cards=True).json('{"card":4111111111111111,"n":1}') == f'{{"card":"{REDACTED}","n":1}}'


def test_a_star_in_a_pattern_stands_for_anything() -> None:
    starred = Redactor(("*token*", "x_*_y"))

    assert starred.is_secret_key("max_tokens")
    assert starred.is_secret_key("X-some-Y")
    assert not starred.is_secret_key("x_some_yes")
    assert starred.text("max_tokens_left=5 other=6") == f"max_tokens_left={REDACTED} other=6"


def test_without_patterns_only_looks_count() -> None:
    assert Redactor(()).json('{"password":"x"}') == '{"password":"x"}'


def test_a_summary_is_redacted_before_it_is_cut_to_120_characters() -> None:
    """B4."""
    text = json.dumps({"token": "x" * 500, "note": "y" * 500})

    summary = redactor.summary(text)

    assert len(summary) == SUMMARY_LENGTH == 120
    assert summary.startswith(f'{{"token":"{REDACTED}","note":"yyy')
    assert summary.endswith("...")


def test_of_a_very_long_text_only_the_beginning_is_read() -> None:
    text = redactor.text("a" * READ_AT_MOST + SECRET)

    assert "CANARY" not in text
    assert text.endswith(f"[{len(SECRET)} more characters]")


def test_json_that_is_too_deep_is_treated_as_text() -> None:
    assert redactor.json("[" * 10_000 + "]" * 10_000).startswith("[[")
    assert "CANARY" not in redactor.json('{"a":' * 2_000 + f'{{"password":"{SECRET}"}}' + "}" * 2_000)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_json)
def test_json_stays_json_of_the_same_shape(value: object) -> None:
    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(inner) for key, inner in value.items() if not redactor.is_secret_key(key)}
        return [shape(inner) for inner in value] if isinstance(value, list) else type(value)

    text = json.dumps(value)
    if len(text) <= READ_AT_MOST and isinstance(value, dict | list):
        assert shape(json.loads(redactor.json(text))) == shape(value)


@given(st.text(st.sampled_from('password:="\\{}[] \nbearersk-eyJ.@/1')))
def test_no_text_breaks_it(text: str) -> None:
    assert isinstance(Redactor(cards=True, e_mails=True).json(text), str)
