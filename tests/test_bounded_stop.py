"""Nothing that hangs keeps the process (C035)."""

import threading

from proxy import bounded_stop


def test_everything_is_flushed_released_and_shut_down_in_this_order() -> None:
    done: list[str] = []

    sent = bounded_stop.stop(
        [lambda: done.append("flush")],
        [lambda: done.append("release")],
        [lambda: done.append("shutdown")],
        60,
    )

    assert sent
    assert done == ["flush", "release", "shutdown"]


def test_what_hangs_is_left_behind_and_said() -> None:
    forever = threading.Event()
    done: list[str] = []

    sent = bounded_stop.stop(
        [forever.wait, lambda: done.append("other")], [forever.wait], [forever.wait], 0.05
    )

    assert not sent
    assert done == ["other"]
    forever.set()


def test_what_fails_troubles_nobody() -> None:
    def fail() -> None:
        raise OSError("refused")

    assert bounded_stop.stop([fail], [fail], [fail], 60)
