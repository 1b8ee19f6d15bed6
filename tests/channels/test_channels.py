"""The list of channels."""

import pytest

from proxy.channels import CHANNELS, ChannelOptions
from tests.channels.forms import TEXTS


def test_every_channel_has_forms_to_be_tried() -> None:
    assert CHANNELS.keys() == TEXTS.keys()


@pytest.mark.parametrize("name", CHANNELS)
def test_a_channel_is_known_by_its_name(name: str) -> None:
    channel = CHANNELS[name](ChannelOptions())
    assert channel.name == name
    assert channel.rules
    assert channel.refusal([("a", "no")])
