"""What a request and the calls of an answer come to, before anything is sent or written."""

from pathlib import Path

from proxy.demo import Answer, Call
from tests.playbook import CHAT, play

TOOLS = [{"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}]
ASK = {"role": "user", "content": "Where is A1?"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_order", "arguments": "{}"}}


async def test_what_is_not_sent_takes_nothing_from_the_budget(tmp_path: Path) -> None:
    """E2, C7: a history that is refused costs no round; the next request finds all of its budget."""
    async with play(tmp_path, limits__turn__rounds=1, checks__history="refuse") as stage:
        stage.provider.script(Answer(calls=(Call("get_order"),)))
        orphaned = [ASK, {"role": "assistant", "content": None, "tool_calls": [CALL]}, ASK]
        refused = await stage.post(CHAT, {"model": "m", "messages": orphaned, "tools": TOOLS})
        assert refused.status == 400
        assert not stage.provider.seen
        answered = await stage.post(CHAT, {"model": "m", "messages": [ASK], "tools": TOOLS})
        assert answered.json["choices"][0]["message"]["tool_calls"]
