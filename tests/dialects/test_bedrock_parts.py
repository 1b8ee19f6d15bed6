"""The words of the Converse API."""

import json

import pytest

from proxy.core.messages import Malformed, Problem, Usage
from proxy.dialects.bedrock_parts import (
    call_block,
    call_of,
    error_body,
    exception_type,
    is_call,
    usage_of,
    usage_record,
)


def test_whatever_holds_a_tool_use_is_a_call_unless_the_provider_ran_it() -> None:
    """C1."""
    assert is_call({"toolUse": {}})
    assert is_call({"text": "x", "toolUse": {"type": "other"}})
    assert not is_call({"toolUse": {"type": "server_tool_use"}})


def test_a_call_has_a_name() -> None:
    for use in ({}, {"name": 1}, {"name": "x", "toolUseId": 1}):
        with pytest.raises(Malformed):
            call_of({"toolUse": use}, 0, "")


def test_arguments_that_are_no_object_cannot_stand_in_a_history() -> None:
    for arguments, written in (('{"a":1}', {"a": 1}), ("{", {}), ("[]", {}), ("", {}), ('{"a":NaN}', {})):
        block = json.loads(call_block({"name": "x"}, "a", arguments))
        assert block["toolUse"] == {"name": "x", "toolUseId": "a", "input": written}


def test_usage_counts_what_came_from_a_cache_as_input() -> None:
    """E4."""
    record = {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 7, "cacheWriteInputTokens": 1}
    usage = usage_of(record)
    assert usage == Usage(13, 2, 7, 1)
    assert usage_record(usage) == {**record, "totalTokens": 15}
    assert usage_of({}) is None


def test_an_error_is_of_a_type_that_the_sdks_know() -> None:
    """C4."""
    body = json.loads(error_body(Problem(429, "rate", "Slow down.", {"limit": 3, "message": "x"})))
    assert body == {"__type": "ThrottlingException", "message": "Slow down.", "reason": "rate", "limit": 3}
    assert exception_type(Problem(502, "x", "y")) == "internalServerException"
