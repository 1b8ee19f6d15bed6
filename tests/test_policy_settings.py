"""Which policies are evaluated, and by what."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from proxy.config import SettingsFault, load_settings
from proxy.policy_settings import Opa, Policy


def test_the_shipped_policies_hold_where_nothing_is_said() -> None:
    policy = Policy()
    assert (policy.folders, policy.data, policy.profile) == ((), None, "starter")


def test_they_are_read_from_the_environment_and_checked() -> None:
    loaded = load_settings(environment={"CALLGATE_POLICY__DATA": "rules.yaml"})
    assert loaded.policy.data == Path("rules.yaml")
    with pytest.raises(SettingsFault, match="profile"):
        load_settings(environment={"CALLGATE_POLICY__PROFILE": "lenient"})


def test_an_opa_server_decides_only_where_it_is_named() -> None:
    """F3: the embedded engine is the default."""
    assert Policy().opa_server is None

    server = Policy(engine="opa").opa_server
    assert server is not None
    assert (server.url, server.manage, server.timeout) == ("http://127.0.0.1:8181", True, 1.0)


@pytest.mark.parametrize(
    "url",
    ["http://opa:8181", "https://opa.example", "http://[::1]:8181/behind/a/path", "unix:///run/opa.sock"],
)
def test_it_is_reached_over_tcp_tls_or_a_socket(url: str) -> None:
    assert Opa(url=url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "opa:8181",
        "ftp://opa",
        "unix://run/opa.sock",
        "unix:///",
        "http://ann:secret@opa",
        "http://opa/?a=1",
        "",
    ],
)
def test_other_addresses_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(SettingsFault) as refused:
        load_settings(environment={"CALLGATE_POLICY__OPA__URL": url})
    assert "policy.opa.url" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_certificates_are_for_tls() -> None:
    file = Path("x.pem")
    assert Opa(url="https://opa", ca_file=file, cert_file=file, key_file=file).key_file == file
    for wrong in ({"ca_file": file}, {"url": "https://opa", "key_file": file}):
        with pytest.raises(ValueError, match="file"):
            Opa.model_validate(wrong)


def test_policies_come_from_one_place() -> None:
    """A folder that nobody reads would be a rule that does not hold."""
    foreign = Opa(manage=False)
    assert Policy(engine="opa", opa=foreign).opa_server is not None
    with pytest.raises(ValueError, match="those of the server"):
        Policy(engine="opa", opa=foreign, folders=(Path("policies"),))


def test_the_token_is_shown_nowhere() -> None:
    policy = Policy(engine="opa", opa=Opa(token=SecretStr("hush")))
    assert policy.opa_server is not None
    assert policy.opa_server.token == "hush"
    assert "hush" not in f"{policy!r} {policy.opa_server!r}"
