"""The kinds of values in the settings tree."""

import ipaddress

import pytest
from pydantic import ValidationError

from proxy.setting_kinds import Count, Network, Part, Seconds


class Sample(Part):
    count: Count = 1
    seconds: Seconds = 1.0
    networks: tuple[Network, ...] = ()


def test_text_from_the_environment_becomes_the_right_kind() -> None:
    read = Sample.model_validate({"count": "3", "seconds": "0.5", "networks": ["10.0.0.0/8", "::1"]})

    assert read.count == 3
    assert read.seconds == 0.5
    assert read.networks == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", True),
        ("count", -1),
        ("count", 1.5),
        ("seconds", 0),
        ("seconds", "inf"),
        ("seconds", "nan"),
        ("seconds", False),
        ("networks", ["10.0.0.1/8"]),
        ("networks", ["ten"]),
        ("unknown", 1),
    ],
)
def test_what_is_of_no_such_kind_is_refused_without_being_shown(name: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        Sample.model_validate({name: value})

    assert "input_value" not in str(refused.value)


def test_a_part_does_not_change() -> None:
    with pytest.raises(ValidationError):
        Sample().count = 2  # type: ignore[misc]  # which is the point
