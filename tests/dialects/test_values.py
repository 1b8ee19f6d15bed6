"""JSON values as clients read them, and what identifies them."""

import json
from typing import Any

import pytest

from proxy.core.messages import Malformed
from proxy.dialects.values import assistant_digest, canonical, dumped, loaded


def test_half_a_surrogate_pair_is_read_and_written() -> None:
    value = loaded(b'{"a":"\\ud83d"}')
    assert json.loads(dumped(value)) == value
    for text in (b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(ValueError):
            loaded(text)


def test_an_assistant_message_is_known_by_its_text_and_calls() -> None:
    """A2: another spelling of the same arguments is the same message, another value is not."""
    digest = assistant_digest("So. ", [("c1", "f", '{"a": 1, "b": 2}')])
    assert digest == assistant_digest("So.", [("c1", "f", '{"b":2,"a":1}')])
    assert assistant_digest("", [("c1", "f", "")]) == assistant_digest("", [("c1", "f", "{}")])
    for other in (("c2", "f", "{}"), ("c1", "g", "{}"), ("c1", "f", '{"a":1,"b":3}'), ("c1", "f", "{a")):
        assert assistant_digest("So.", [other]) != digest
    assert assistant_digest("Oh.", [("c1", "f", '{"a":1,"b":2}')]) != digest


def test_what_is_too_deep_to_be_spelled_is_malformed() -> None:
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    with pytest.raises(Malformed, match="too deep"):
        canonical(deep)
