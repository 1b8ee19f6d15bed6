"""How the model reads what tools returned, as configured."""

import subprocess
import sys

from pydantic import SecretStr

from proxy.config import load_settings
from proxy.result_settings import ResultSettings


def test_results_are_left_alone_unless_somebody_says_so() -> None:
    how = ResultSettings().rendering
    assert (how.truncate, how.fence, how.mark_errors) == (0, False, False)


def test_a_secret_of_ones_own_is_the_same_in_all_replicas() -> None:
    """C9: without one, every start makes its own, and nobody can guess it."""
    assert ResultSettings(secret=SecretStr("x")).rendering.secret == b"x"
    made = ResultSettings().rendering.secret
    assert made == ResultSettings().rendering.secret
    assert len(made) == 32
    other = "from proxy.result_settings import ResultSettings; print(ResultSettings().rendering.secret.hex())"
    shown = subprocess.run([sys.executable, "-c", other], check=True, capture_output=True, text=True).stdout
    assert shown.strip() != made.hex()


def test_the_secret_is_shown_nowhere() -> None:
    settings = load_settings(environment={"CALLGATE_RESULTS__SECRET": "planted-secret"})
    assert "planted-secret" not in repr(settings) + repr(settings.for_checks())
