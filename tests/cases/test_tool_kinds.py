"""Cases about tools that are no functions: free text, and tools that the provider runs itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.demo import Answer
from tests.cases.harness import raw_of, staged
from tests.dialects import responses_agent

RULES = {
    "org": {
        # The case's `default: block`: the two tools that the provider would run stand on no list.
        "allowed_tools": ["apply_patch"],
        "tools": {"apply_patch": {"arguments": {"text": {"not_pattern": "Delete File:"}}}},
    }
}
LAST = "That file stays."


@pytest.mark.parametrize("reasks", [0, 1])
async def test_free_text_is_judged_and_tools_of_the_provider_are_not_offered(
    tmp_path: Path, reasks: int
) -> None:
    """C022. C10, D1, D5, D15. What is blocked is blocked in all its events, what is allowed keeps its own form."""
    async with staged("c022", tmp_path, RULES, reask__per_turn=reasks) as stage:
        case, (asked,) = stage.case, stage.case.requests
        stage.provider.script(raw_of(case.upstream[0]))
        if reasks:
            stage.provider.script(Answer(LAST))
        stage.provider.script(raw_of(case.upstream[1]))
        blocked, allowed = [
            await stage.play.post(asked["path"], json.dumps(asked["body"]).encode(), stage.fresh())
            for _ in range(2)
        ]
        offered = stage.seen[0].json
        case.holds("upstream.requests[0].body.tools", offered["tools"] if offered else None)
        case.holds("run1.client.bytes", blocked.body.decode())
        case.holds("run1.client.tool_calls", calls_in(blocked.body))
        case.holds("run2.client.tool_calls", calls_in(allowed.body))
        assert allowed.body == raw_of(case.upstream[1]).body
        said = responses_agent.sdk_streams(blocked.body).output_text
        assert (LAST if reasks else '"apply_patch" was not run') in said
        decisions = [(entry["outcome"], entry["reason_class"]) for entry in await stage.decisions()]
        assert [outcome for outcome, _ in decisions] == ["block", "allow"]
        assert decisions[0][1] == "argument_rule"


def calls_in(stream: bytes) -> list[dict[str, object]]:
    """The calls that the official SDK reads, as the case writes them."""
    items = [item.to_dict() for item in responses_agent.sdk_streams(stream).output]
    return [item for item in items if str(item["type"]).endswith("_call")]
