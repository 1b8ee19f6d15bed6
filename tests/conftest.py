"""What every test may ask for: real parts, by name, that skip where they are missing and fail where they must not be."""

import os

import pytest

REQUIRE_ALL = "CALLGATE_REQUIRE_ALL"


def skip_or_fail(reason: str) -> None:
    """Skip the test, or fail it where CALLGATE_REQUIRE_ALL is set (CI): a skipped promise is not a kept one."""
    if os.environ.get(REQUIRE_ALL):
        pytest.fail(f"{reason} ({REQUIRE_ALL} is set, so this is not skipped)", pytrace=False)
    pytest.skip(reason)


def need(condition: object, reason: str) -> None:
    """`need(shutil.which("redis-server"), "no redis-server on PATH")`: go on only if the real part is there."""
    if not condition:
        skip_or_fail(reason)
