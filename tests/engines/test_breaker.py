"""A server that does not answer is spared, and asked again by one."""

from hypothesis import given, strategies as st

from proxy.engines.breaker import Breaker
from proxy.errors import EngineFault


class Down(EngineFault):
    """The server does not work."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ask(breaker: Breaker, fault: BaseException | None = None) -> str:
    """What comes of one question: `works`, `down`, `policy`, `refused` or `gone`."""
    try:
        with breaker.asking(Down):
            if fault is not None:
                raise fault
    except Down:
        return "down"
    except EngineFault as said:
        return "refused" if said.code == "opa_refusing" else "policy"
    except KeyboardInterrupt:
        return "gone"
    return "works"


def broken(clock: Clock, failures: int = 3) -> Breaker:
    breaker = Breaker("the server", failures, 2.0, clock)
    for _ in range(failures):
        assert ask(breaker, Down("no route")) == "down"
    return breaker


def test_after_faults_in_a_row_everybody_is_refused_at_once() -> None:
    """F3: a dead server costs each decision nothing but a refusal."""
    breaker = broken(Clock())

    assert ask(breaker) == "refused"
    assert breaker.trouble == "the server is not asked: no route"


def test_one_that_works_in_between_starts_the_count_anew() -> None:
    breaker = Breaker("the server", 2, 2.0, Clock())

    assert [ask(breaker, fault) for fault in (Down("a"), None, Down("b"), None)] == ["down", "works"] * 2
    assert ask(breaker) == "works"


def test_a_fault_of_policies_says_that_the_server_works() -> None:
    """No caller can close policies to others with an input on which a rule fails."""
    breaker = Breaker("the server", 2, 2.0, Clock())

    assert [ask(breaker, EngineFault("1/0")) for _ in range(5)] == ["policy"] * 5
    assert [ask(breaker, each) for each in (Down("a"), EngineFault("1/0"), Down("a"))] == [
        "down",
        "policy",
        "down",
    ]
    assert breaker.trouble == ""


def test_later_one_alone_tries_and_opens_it_for_all() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now += 2.0

    with breaker.asking(Down):
        assert [ask(breaker), ask(breaker)] == ["refused"] * 2
    assert ask(breaker) == "works"
    assert breaker.trouble == ""


def test_a_trial_that_fails_spares_the_server_for_as_long_again() -> None:
    clock = Clock()
    breaker = broken(clock)
    clock.now += 2.0

    assert ask(breaker, Down("still no route")) == "down"
    clock.now += 1.9
    assert ask(breaker) == "refused"
    clock.now += 0.1
    assert ask(breaker) == "works"


def test_a_trial_that_is_given_up_leaves_its_place_to_the_next() -> None:
    """An agent that hangs up must not keep everybody refused."""
    clock = Clock()
    breaker = broken(clock)
    clock.now += 2.0

    assert ask(breaker, KeyboardInterrupt()) == "gone"
    assert ask(breaker) == "works"


def test_late_answers_of_before_say_nothing() -> None:
    clock = Clock()
    breaker = Breaker("the server", 1, 2.0, clock)
    late_fault, late_answer = breaker.asking(Down), breaker.asking(Down)
    late_fault.__enter__()
    late_answer.__enter__()
    assert ask(breaker, Down("no route")) == "down"

    late_answer.__exit__(None, None, None)
    assert ask(breaker) == "refused"
    clock.now += 2.0
    assert ask(breaker) == "works"
    assert not late_fault.__exit__(Down, Down("old"), None)
    assert ask(breaker) == "works"


@given(
    st.lists(st.one_of(st.sampled_from(["works", "down", "policy", "gone"]), st.floats(0, 3))),
    st.integers(1, 4),
)
def test_it_always_recovers(steps: list[str | float], failures: int) -> None:
    """Whatever happened: after the pause the next one may ask, and if that works, everybody may."""
    faults = {"works": None, "down": Down("x"), "policy": EngineFault("y"), "gone": KeyboardInterrupt()}
    clock = Clock()
    breaker = Breaker("the server", failures, 2.0, clock)
    for step in steps:
        if isinstance(step, float):
            clock.now += step
        else:
            ask(breaker, faults[step])
    clock.now += 2.0

    assert [ask(breaker), ask(breaker)] == ["works"] * 2
