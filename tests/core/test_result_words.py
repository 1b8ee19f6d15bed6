"""The patterns run in linear time and mean what they say."""

import re

import pytest

from proxy.core import result_words as words

PATTERNS = [value for value in vars(words).values() if isinstance(value, re.Pattern)]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:30])
@pytest.mark.parametrize(
    "piece", ["error ", "a.", "no a-", "status error ", "not ", "x", "_.", "timeout", "the ", " "]
)
def test_no_pattern_is_slow_on_a_text_made_for_it(pattern: re.Pattern[str], piece: str) -> None:
    # A pattern that backtracks would not come back from this within the life of the test run.
    text = piece * 2_000

    assert pattern.match(text) is None or pattern.match(text) is not None
    assert pattern.search(text + "!") is None or pattern.search(text + "!") is not None


def test_an_envelope_speaks_of_the_call_and_not_of_the_world() -> None:
    assert {"error", "message", "code", "request_id"} <= words.ENVELOPE_FIELDS
    assert not {"id", "name", "amount", "city"} & words.ENVELOPE_FIELDS
    assert not words.PAYLOAD_FIELDS & words.SIZE_FIELDS
