"""A whole answer of the Messages API, edited; what is taken out and put in is shown in test_anthropic_edits."""

import json

import pytest

from proxy.core.messages import Malformed
from proxy.dialects.anthropic import ANTHROPIC

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read_note", "input": {"id": 4}}


def answer(*content: object) -> bytes:
    return json.dumps({"type": "message", "content": content, "stop_reason": "tool_use"}).encode()


def test_other_text_stands_where_the_first_text_stood() -> None:
    """C6: signed thinking and calls keep their place."""
    text = {"type": "text", "text": "Action: x", "citations": None}
    made = ANTHROPIC.rewrite_response(answer(THINKING, text, CALL, text), "Well.")
    assert json.loads(made)["content"] == [THINKING, {"type": "text", "text": "Well."}, CALL]


def test_no_empty_block_of_text_is_left() -> None:
    """The provider refuses a history with one."""
    made = ANTHROPIC.rewrite_response(answer(THINKING, {"type": "text", "text": "x"}), "")
    assert json.loads(made)["content"] == [THINKING]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"content":1,"content":[]}'])
def test_what_is_no_answer_is_not_rewritten(body: bytes) -> None:
    with pytest.raises(Malformed):
        ANTHROPIC.rewrite_response(body, "x")
