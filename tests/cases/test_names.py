"""Tool names and filtering: C025, C026."""

import logging
from pathlib import Path

import pytest

from proxy.core.json_text import elements, members
from proxy.demo import Answer, Call
from tests.cases.harness import load, rules_of, staged
from tests.cases.test_bypass_and_ending import own_keys


@pytest.mark.parametrize("stream", [True, False])
async def test_look_alike_names_are_other_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    """C025. C2, D1, D5. Two agents stand for the two configurations. The call that is let through in the second run
    does not fit the schema that its tool declares, which is another case's business: schemas are in shadow."""
    shadow = {"checks__modes": {"arguments.schema": "shadow"}}
    config = load("c025").config
    agents = {name: rules_of(config[name])["org"] for name in ("config_1", "config_2")}
    caplog.set_level(logging.DEBUG)
    keys = own_keys(config_1="key-1", config_2="key-2")
    async with staged("c025", tmp_path, {"agents": agents}, **keys, **shadow) as stage:
        case, found = stage.case, []
        for number, (asked, answer) in enumerate(zip(case.requests, case.upstream, strict=True), 1):
            stage.tell(answer, stream=stream)
            found.append(await stage.send(asked, {"authorization": f"Bearer key-{number}"}, stream=stream))
        first, second = found

        case.holds("run1.client.tool_calls", first.tool_calls)
        outcomes = [entry["outcome"] for entry in await stage.decisions(first)]
        case.holds("run1.decisions", says=outcomes == ["block"] * 5 + ["allow"])
        case.holds("run2.client.tool_calls", second.tool_calls)
        assert [entry["outcome"] for entry in await stage.decisions(second)] == ["block"] * 3 + ["allow"]
        journal = stage.play.journal.read_bytes()
        case.holds("log", says=journal.isascii() and caplog.text.isascii())
        assert b"search_docs\\u200b" in journal
        assert "search_docs\\u200b" in first.text


async def test_a_denied_name_is_denied_in_every_spelling(tmp_path: Path) -> None:
    """C025: also where the agent offers the other spelling itself. D1, D5."""
    async with staged("c025", tmp_path, rules_of(load("c025").config["config_2"])) as stage:
        stage.case.unseen.clear()
        (_, asked) = stage.case.requests
        offered = [
            *asked["body"]["tools"],
            {"type": "function", "function": {"name": "SEND_MAIL", "parameters": {"type": "object"}}},
        ]
        calls = tuple(Call(name, {}, f"m{at}") for at, name in enumerate(("SEND_MAIL", "search_docs")))
        stage.provider.script(Answer(calls=calls))
        found = await stage.send(asked | {"body": asked["body"] | {"tools": offered}})
        assert [call.name for call in found.calls] == ["search_docs"]
        sent = stage.seen[0].json
        assert sent is not None
        assert "SEND_MAIL" not in [tool["function"]["name"] for tool in sent["tools"]]


async def test_hiding_tools_leaves_a_request_that_the_provider_takes(tmp_path: Path) -> None:
    """C026. A7, D1, D15."""
    async with staged("c026", tmp_path) as stage:
        case = stage.case
        stage.tell(case.upstream[0])
        stage.tell(case.upstream[0])
        stage.tell(case.upstream[0])
        stage.tell(case.upstream[1])
        for asked in case.requests:
            assert (await stage.send(asked, stage.fresh())).text == "ok"

        bodies = [seen.json or {} for seen in stage.seen]
        gone = {"tools", "tool_choice", "parallel_tool_calls"}
        case.holds("upstream.requests[0].body", says=not gone & bodies[0].keys())
        case.holds("upstream.requests[1].body.tool_choice", bodies[1].get("tool_choice"))
        case.holds("upstream.requests[1].body.tools", bodies[1]["tools"])
        case.holds("upstream.requests[2].body.tools")
        second, third = (seen.body[members(seen.body).values["tools"].start :] for seen in stage.seen[1:3])
        kept = [elements(body, 0).values[0].cut(body) for body in (second, third)]
        assert kept[0] == kept[1]
        assert bodies[2]["tools"] == bodies[1]["tools"]
        case.holds("upstream.requests[3].body", says=not {"tools", "tool_choice"} & bodies[3].keys())
        # All else is as it came.
        assert bodies[3].keys() == case.requests[3]["body"].keys() - {"tools", "tool_choice"}
