"""Patches (C5)."""

from proxy.channels import ChannelOptions
from proxy.channels.patches import Patches
from tests.channels.forms import calls_in, scanned

PATCH = "*** Begin Patch\n*** Delete File: secrets.txt\n*** End Patch"


def test_a_patch_is_a_call_with_all_that_it_changes() -> None:
    ((name, arguments),) = calls_in(scanned("patches", f"I do this:\n{PATCH}\nDone."))
    assert (name, arguments) == ("apply_patch", '{"patch": "*** Delete File: secrets.txt"}')


def test_a_patch_that_broke_off_is_still_one() -> None:
    """Fail closed: some appliers do not look for the end."""
    assert [name for name, _ in calls_in(scanned("patches", PATCH[:-10]))] == ["apply_patch"]


def test_calls_are_written_as_they_are_read() -> None:
    calls = calls_in(scanned("patches", PATCH))
    assert calls_in(scanned("patches", Patches(ChannelOptions()).written(calls))) == calls
