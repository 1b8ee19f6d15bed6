"""What agents may leave with the provider."""

import pytest

from proxy.config import SettingsFault, load_settings
from proxy.kept_settings import KeptSettings


def test_answers_in_the_background_have_to_be_allowed() -> None:
    """Their calls are seen only when they are fetched: refused unless somebody says so."""
    kept = KeptSettings()
    assert (kept.store, kept.background, kept.unknown) == ("allow", "refuse", "allow")


def test_they_are_read_from_the_environment_and_checked() -> None:
    loaded = load_settings(environment={"CALLGATE_KEPT__STORE": "refuse"})
    assert loaded.kept.store == "refuse"
    with pytest.raises(SettingsFault, match="kept"):
        load_settings(environment={"CALLGATE_KEPT__STORE": "never"})
