"""Where a bundle file with policies comes from."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from proxy.bundle_settings import BundleSettings
from proxy.config import SettingsFault, load_settings
from proxy.policy_settings import Policy

URL = "https://policies.example/x.tar.gz"


def test_there_is_no_bundle_unless_one_is_named() -> None:
    assert BundleSettings().source is None
    assert Policy().bundle_source is None


def test_what_is_said_reaches_the_engines_and_secrets_do_not_reach_a_log() -> None:
    """F2."""
    said = BundleSettings(
        url=URL, token=SecretStr("s3cret"), headers={"x-key": SecretStr("k3y")}, cache=Path("c")
    )
    source = said.source

    assert source is not None
    assert (source.token, source.headers, source.cache) == ("s3cret", {"x-key": "k3y"}, Path("c"))
    assert source.title == URL
    assert source.short_title == "x.tar.gz"
    assert "s3cret" not in f"{said!r} {source!r}"
    assert "k3y" not in f"{said!r} {source!r}"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"path": "x.tar.gz", "url": URL}, "name one of them"),
        ({"url": "http://policies.example/x"}, "https"),
        ({"url": "ftp://policies.example/x"}, "https"),
        ({"url": "https://me:you@policies.example/x"}, "without a password"),
        ({"url": URL, "required_at_start": False}, "needs a cache"),
        ({"url": URL, "token": "a\nb"}, "one line"),
        ({"url": URL, "headers": {"x-a": "a\r\nb"}}, "one line"),
        ({"url": URL, "poll_seconds": 0}, "poll_seconds"),
    ],
)
def test_what_does_not_fit_together_is_said(settings: dict[str, Any], complaint: str) -> None:
    named = {f"policy.bundle.{name}": value for name, value in settings.items()}
    with pytest.raises(SettingsFault, match=complaint):
        load_settings(overrides=named, environment={})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x", "http://[::1]/x", "http://localhost/x", "https://policies.example/x"]
)
def test_this_machine_may_be_asked_without_tls(url: str) -> None:
    assert BundleSettings(url=url).url == url
    assert BundleSettings(url="http://policies.example/x", allow_http=True).url
