"""How the model reads what tools returned, as configured."""

from pydantic import SecretStr

from proxy.config import load_settings
from proxy.result_settings import ResultSettings


def test_results_are_left_alone_unless_somebody_says_so() -> None:
    how = ResultSettings().rendering
    assert (how.truncate, how.fence, how.mark_errors) == (0, False, False)


def test_a_secret_of_ones_own_is_the_same_in_all_replicas() -> None:
    """C9: without one, every start makes its own, and nobody can guess it."""
    assert ResultSettings(secret=SecretStr("x")).rendering.secret == b"x"
    one, other = ResultSettings(), ResultSettings()
    assert one.rendering.secret == one.rendering.secret
    assert one.rendering.secret != other.rendering.secret
    assert len(one.rendering.secret) == 32


def test_the_secret_is_shown_nowhere() -> None:
    settings = load_settings(environment={"CALLGATE_RESULTS__SECRET": "planted-secret"})
    assert "planted-secret" not in repr(settings) + repr(settings.for_checks())
