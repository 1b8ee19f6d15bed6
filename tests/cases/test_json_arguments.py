"""JSON arguments: C027, C028."""

import asyncio
from pathlib import Path

import pytest

from proxy.demo import Answer
from tests.cases.harness import Case, Stage, load, rules_of, staged

LAST = "I cannot open that file."
RULES = {"arguments": {"path": {"starts_with": "/srv/notes/"}}}
"""What the case says in Rego: the tool may open notes only."""


def rules(number: str) -> dict[str, object]:
    org = rules_of(load(number).config)["org"]
    return {"org": org | {"tools": {"open_file": RULES}}}


@pytest.mark.parametrize("reasks", [0, 1])
@pytest.mark.parametrize("stream", [True, False])
async def test_the_same_key_twice_is_ambiguous(tmp_path: Path, reasks: int, *, stream: bool) -> None:
    """C027. C3, C4, D2."""
    async with staged("c027", tmp_path, rules("c027"), reask__per_turn=reasks) as stage:
        case, (asked,) = stage.case, stage.case.requests
        for number, answer in enumerate(case.upstream, 1):
            stage.tell(answer, stream=stream)
            if reasks:
                stage.provider.script(Answer(LAST))
            found = await stage.send(asked, stage.fresh(), stream=stream)
            (decision,) = await stage.decisions(found)
            run = "run5" if number == 5 else "run[1..4]"
            case.holds(f"{run}.client.tool_calls", found.tool_calls)
            case.holds(f"{run}.decisions[0].reason_class", decision["reason_class"])
            assert decision["outcome"] == "block"
            assert "master.pem" not in found.text
            assert (LAST if reasks else "was not run") in found.text


async def ran(stage: Stage, case: Case, number: int, *, stream: bool, reasks: int) -> None:
    """One answer of C028."""
    (asked,), answer = case.requests, case.upstream[number - 1]
    stage.tell(answer, stream=stream)
    if reasks and number < 12:
        stage.provider.script(Answer(LAST))
    found = await stage.send(asked, stage.fresh(), stream=stream)
    (decision,) = await stage.decisions(found)
    if number < 12:
        case.holds("run[1..11].client.tool_calls", found.tool_calls)
        case.holds("run[1..11].decisions[0].reason_class", decision["reason_class"])
        refused = "exactly one JSON object"
        assert (LAST if reasks else refused) in found.text
        assert not reasks or refused in stage.seen[-1].body.decode()
    else:
        case.holds("run[12..14].client.tool_calls[0].arguments", found.tool_calls[0]["arguments"])
        (wanted,) = answer["body"]["choices"][0]["message"]["tool_calls"]
        same = found.calls[0].raw == wanted["function"]["arguments"]
        case.holds("run[12..14].client.arguments_raw", says=same)


@pytest.mark.parametrize("reasks", [0, 1])
@pytest.mark.parametrize("stream", [True, False])
async def test_only_exactly_one_json_object_is_let_through(
    tmp_path: Path, reasks: int, *, stream: bool
) -> None:
    """C028. C3, C4."""
    async with staged("c028", tmp_path, rules("c028"), reask__per_turn=reasks) as stage:
        case = stage.case
        assert len(case.upstream) == 14
        for number in range(1, 15):
            async with asyncio.timeout(1 if number == 11 else None):
                await ran(stage, case, number, stream=stream, reasks=reasks)
        case.holds("run11.within_ms", 1000)
        # The last three passed behind it.
        case.holds("proxy.alive", actual=True)
