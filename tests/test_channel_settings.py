"""Which agents write calls in text."""

import pytest

from proxy.channel_settings import ChannelSettings
from proxy.config import SettingsFault, load_settings


@pytest.mark.parametrize(
    ("agents", "agent", "holds"), [(("*",), "", True), (("bot-*",), "bot-7", True), (("bot",), "x", False)]
)
def test_channels_hold_for_the_agents_they_name(agents: tuple[str, ...], agent: str, holds: bool) -> None:
    assert ChannelSettings(name="react", agents=agents).holds_for(agent) is holds


def test_options_reach_the_channel() -> None:
    channel = ChannelSettings(name="fences", code_tool="sandbox").channel()
    assert "sandbox" in channel.written([("sandbox", '{"code": "x"}')]) or "x" in channel.written(
        [("sandbox", '{"code": "x"}')]
    )


def test_a_channel_that_does_not_exist_is_said() -> None:
    with pytest.raises(SettingsFault, match="there is no channel reakt; there are tags"):
        load_settings(overrides={"channels": [{"name": "reakt"}]}, environment={})
