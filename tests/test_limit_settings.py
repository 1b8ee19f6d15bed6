"""Budgets and brakes as an operator writes them."""

from proxy.core.limits import Brakes
from proxy.limit_settings import LimitSettings


def test_a_cap_on_rounds_and_calls_holds_though_nobody_set_one() -> None:
    """A1, B1, D12."""
    limits = LimitSettings().to_core()

    for bounds in (limits.turn, limits.run):
        assert bounds.rounds
        assert bounds.calls
        assert bounds.seconds
    assert limits.brakes == Brakes()


def test_setting_one_limit_leaves_the_others_as_they_are() -> None:
    limits = LimitSettings.model_validate({"turn": {"rounds": 3, "per_tool": {"refund": 1}}}).to_core()

    assert limits.turn.rounds == 3
    assert limits.turn.per_tool == {"refund": 1}
    assert limits.turn.calls == 200
    assert limits.run == LimitSettings().to_core().run


def test_null_lifts_a_limit_or_a_brake() -> None:
    limits = LimitSettings.model_validate(
        {"turn": {"rounds": None}, "brakes": {"same_call_stop": None}}
    ).to_core()

    assert limits.turn.rounds is None
    assert limits.brakes.same_call_stop is None
    assert limits.brakes.same_call_nudge == 2
