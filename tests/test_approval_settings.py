"""Settings of approvals."""

import pytest

from proxy.config import SettingsFault, load_settings


def test_a_webhook_is_signed() -> None:
    with pytest.raises(SettingsFault, match=r"secret: is needed with a URL"):
        load_settings(overrides={"approvals.webhook.url": "https://x.example"}, environment={})


def test_a_webhook_is_an_address() -> None:
    with pytest.raises(SettingsFault, match=r"should begin with https:// or http://"):
        load_settings(
            overrides={"approvals.webhook.url": "x.example", "approvals.webhook.secret": "s"}, environment={}
        )


@pytest.mark.parametrize(
    "name", ["hold_seconds", "timeout_seconds", "use_seconds", "max_waiting", "max_waiting_per_caller"]
)
def test_all_bounds_are_positive(name: str) -> None:
    with pytest.raises(SettingsFault, match=name):
        load_settings(overrides={f"approvals.{name}": 0}, environment={})


def test_calls_are_pending_unless_they_are_to_be_held() -> None:
    assert load_settings(overrides={}, environment={}).approvals.when_needed == "pending"
