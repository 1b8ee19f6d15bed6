"""Which policies are evaluated, and by what."""

from pathlib import Path

import pytest

from proxy.config import SettingsFault, load_settings
from proxy.policy_settings import Policy


def test_the_shipped_policies_hold_where_nothing_is_said() -> None:
    policy = Policy()
    assert (policy.folders, policy.data, policy.profile) == ((), None, "starter")


def test_they_are_read_from_the_environment_and_checked() -> None:
    loaded = load_settings(environment={"CALLGATE_POLICY__DATA": "rules.yaml"})
    assert loaded.policy.data == Path("rules.yaml")
    with pytest.raises(SettingsFault, match="profile"):
        load_settings(environment={"CALLGATE_POLICY__PROFILE": "lenient"})
