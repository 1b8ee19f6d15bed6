"""All checks speak, every verdict is recorded, the strongest that is enforced acts."""

from hypothesis import given, strategies as st

from proxy.core.verdicts import (
    Action,
    CheckSettings,
    Mode,
    Verdict,
    refused_calls,
    strongest,
    with_modes,
)

VERDICTS = st.builds(
    Verdict,
    check=st.sampled_from(["tools.unknown", "policy.org.owner", "policy.team.a.owner", "budget.calls"]),
    code=st.sampled_from(["x", "y"]),
    action=st.sampled_from(Action),
    message=st.just("said"),
    call=st.none() | st.integers(0, 3),
    mode=st.sampled_from([Mode.ENFORCE, Mode.SHADOW]),
)
MANY = st.lists(VERDICTS, max_size=8)


def verdict(
    action: Action, call: int | None = None, check: str = "tools.unknown", mode: Mode = Mode.ENFORCE
) -> Verdict:
    return Verdict(check, "code", action, "said", call, mode=mode)


def test_the_longest_matching_name_decides_the_mode() -> None:
    settings = CheckSettings(
        modes={"policy": Mode.SHADOW, "policy.org": Mode.ENFORCE, "budget.calls": Mode.OFF}
    )

    assert settings.mode("policy.team.a") is Mode.SHADOW
    assert settings.mode("policy.org.owner") is Mode.ENFORCE
    assert settings.mode("policyx") is Mode.ENFORCE
    assert settings.mode("budget.calls") is Mode.OFF
    assert settings.mode("budget") is Mode.ENFORCE


def test_a_check_that_is_off_says_nothing_and_a_shadowed_one_never_acts() -> None:
    settings = CheckSettings(modes={"policy": Mode.SHADOW, "budget": Mode.OFF})
    said = with_modes(
        [
            verdict(Action.DENY, check="policy.org"),
            verdict(Action.DENY, check="budget.calls"),
            verdict(Action.REASK),
        ],
        settings,
    )

    assert [(each.check, each.mode) for each in said] == [
        ("policy.org", Mode.SHADOW),
        ("tools.unknown", Mode.ENFORCE),
    ]
    assert strongest(said) == said[1]


def test_what_policy_said_in_shadow_stays_in_shadow() -> None:
    said = with_modes([verdict(Action.DENY, mode=Mode.SHADOW)], CheckSettings(modes={"tools": Mode.ENFORCE}))

    assert [each.mode for each in said] == [Mode.SHADOW]


def test_of_equals_the_first_acts() -> None:
    first, second = verdict(Action.REASK, 0), verdict(Action.REASK, 1)

    assert strongest([verdict(Action.PASS), first, second]) is first
    assert strongest([verdict(Action.PASS)]) is None
    assert strongest([]) is None


def test_a_note_to_the_model_refuses_no_call() -> None:
    assert refused_calls([verdict(Action.NUDGE, 0), verdict(Action.PASS, 1)], 2) == {}


def test_a_verdict_about_all_refuses_every_call() -> None:
    about_all = verdict(Action.DENY)

    assert refused_calls([about_all], 2) == {0: about_all, 1: about_all}


@given(MANY, st.integers(0, 4))
def test_a_call_is_refused_exactly_when_something_enforced_refuses_it(
    verdicts: list[Verdict], count: int
) -> None:
    refused = refused_calls(verdicts, count)
    for place in range(count):
        about = [
            each
            for each in verdicts
            if each.call in {None, place} and each.mode is Mode.ENFORCE and each.action > Action.NUDGE
        ]
        assert (place in refused) == bool(about)
        if about:
            assert refused[place].action == max(each.action for each in about)


@given(MANY)
def test_modes_never_strengthen_anything(verdicts: list[Verdict]) -> None:
    for modes in ({}, {"policy": Mode.SHADOW}, {"tools": Mode.OFF, "budget": Mode.SHADOW}):
        said = with_modes(verdicts, CheckSettings(modes=modes))
        before, after = strongest(verdicts), strongest(said)
        assert len(said) <= len(verdicts)
        assert after is None or (before is not None and after.action <= before.action)
