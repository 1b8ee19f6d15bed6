"""The functions that policies may call."""

import pytest

from proxy.engines.builtins import ARITIES, why_not
from proxy.engines.worker import Evaluator, RegoError


@pytest.mark.parametrize(("name", "arity"), sorted(ARITIES.items()))
def test_the_embedded_engine_has_it_with_as_many_arguments(name: str, arity: int) -> None:
    """Asked with far too many, it says how many it takes; one that it lacks it does not know."""
    text = f"package a\n\nx := v if v := {name}({', '.join(['1'] * 9)})\n"
    with pytest.raises(RegoError) as caught:
        Evaluator({"a.rego": text}).evaluate("data.a.x", "{}")

    takes = 1 if name == "walk" else arity
    # The one that is ours, in the place of the engine's, says it in fewer words.
    said = "number of parameters" if name == "net.cidr_contains" else f"expects {takes} argument"
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "name", ["http.send", "time.now_ns", "rand.intn", "opa.runtime", "io.jwt.decode", "print"]
)
def test_what_is_not_pure_is_none_of_them_and_says_why(name: str) -> None:
    assert name not in ARITIES
    assert why_not(name).startswith(f"{name} ")


def test_an_unknown_name_is_just_unknown() -> None:
    assert "there is no function hash" in why_not("hash")
    assert "there is no function printer" in why_not("printer")
