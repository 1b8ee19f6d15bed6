"""A call names a tool that was offered and may be used, spelled exactly (C2, D1, D5, D15)."""

import pytest

from proxy.checks import judge_calls, judge_request
from proxy.checks.tools import usable
from proxy.core.messages import UNREADABLE, ChoiceMode, Tool, ToolChoice, ToolKind
from proxy.core.verdicts import Action, Decision
from tests.checks.build import call, codes, enforced, facts, request

TWO = request(tools=("read_repo", "delete_repo"))
READ_ONLY = Decision(allowed_tools=frozenset({"read_repo"}))


def test_a_tool_that_does_not_exist_is_answered_with_those_that_do() -> None:
    """C2."""
    (verdict,) = judge_calls(facts(call("read_repos"), request=TWO))

    assert (verdict.code, verdict.action, verdict.call) == ("tool_unknown", Action.REASK, 0)
    assert verdict.reason_class == "allow_list"
    assert '"read_repo", "delete_repo"' in verdict.message


def test_a_hidden_tool_is_refused_when_it_is_called_all_the_same() -> None:
    """D1, D5: hidden is not enough."""
    verdicts = judge_calls(facts(call("read_repo"), call("delete_repo"), request=TWO, decision=READ_ONLY))

    assert [(each.code, each.call) for each in verdicts] == [("tool_not_allowed", 1)]
    assert '"read_repo"' in verdicts[0].message
    assert '"delete_repo"' not in verdicts[0].message.partition("You can use")[2]


@pytest.mark.parametrize(
    "name",
    [
        "Search_Docs",
        "search_docs\u200b",
        "\uff53earch_docs",
        "s\u0435arch_docs",
        " search_docs",
        "search_docs ",
    ],
)
def test_a_variant_of_an_allowed_name_is_not_the_name(name: str) -> None:
    """C025: none of the variants is corrected into the allowed name."""
    offered = request(tools=("search_docs",))
    allowed = Decision(allowed_tools=frozenset({"search_docs"}))
    verdicts = judge_calls(facts(call(name), call("search_docs"), request=offered, decision=allowed))

    assert [(each.code, each.call) for each in verdicts] == [("tool_unknown", 0)]
    assert verdicts[0].message.isascii()


def test_with_no_tool_left_the_model_is_told_to_answer_without() -> None:
    """C026."""
    nothing = Decision(allowed_tools=frozenset())
    (verdict,) = judge_calls(facts(call("read_repo"), request=TWO, decision=nothing))

    assert verdict.code == "tool_not_allowed"
    assert "answer without tool calls" in verdict.message


def test_a_call_where_no_tools_were_offered_is_refused() -> None:
    (verdict,) = judge_calls(facts(call("read_repo"), request=request(tools=())))

    assert verdict.code == "tool_unknown"


def test_the_agents_own_wish_for_no_calls_is_respected() -> None:
    """D15."""
    asked = request(tools=("read_repo",), tool_choice=ToolChoice(ChoiceMode.NONE))

    assert enforced(judge_calls(facts(call("read_repo"), request=asked))) == [
        ("tool_choice_none", Action.REASK)
    ]


@pytest.mark.parametrize("mode", [ChoiceMode.NAMED, ChoiceMode.REQUIRED, ChoiceMode.AUTO])
def test_the_agents_own_narrowing_is_respected(mode: ChoiceMode) -> None:
    """D15: the allowed-tools settings of a dialect count."""
    asked = request(tools=("read_repo", "delete_repo"), tool_choice=ToolChoice(mode, ("read_repo",)))
    verdicts = judge_calls(facts(call("delete_repo"), call("read_repo"), request=asked))

    assert [(each.code, each.call) for each in verdicts] == [("tool_choice_other", 0)]
    assert usable(facts(request=asked)) == ["read_repo"]


def test_a_forced_tool_that_may_not_be_used_forces_nothing() -> None:
    """C026, D15: the choice becomes free, and the allowed tool may be called."""
    asked = request(
        tools=("read_repo", "delete_repo"), tool_choice=ToolChoice(ChoiceMode.NAMED, ("delete_repo",))
    )
    before = judge_request(facts(request=asked, decision=READ_ONLY))
    after = judge_calls(facts(call("read_repo"), request=asked, decision=READ_ONLY))

    assert codes(before) == ["tools_narrowed", "tool_choice_unmet"]
    assert not enforced(before)
    assert after == ()


def test_what_is_hidden_is_recorded_and_nothing_else() -> None:
    """D1."""
    (verdict,) = judge_request(facts(request=TWO, decision=READ_ONLY))

    assert (verdict.check, verdict.action) == ("tools.narrowed", Action.PASS)
    assert '"delete_repo"' in verdict.message
    assert judge_request(facts(request=TWO)) == ()
    assert judge_request(facts(request=TWO, decision=Decision(allowed_tools=frozenset(TWO.tool_names)))) == ()


def test_a_free_form_call_needs_a_free_form_tool() -> None:
    """C022: the kinds are not mixed."""
    offered = request(
        tools=(Tool("apply_patch", ToolKind.CUSTOM), Tool("read_repo"), Tool("search", ToolKind.HOSTED))
    )
    calls = (
        call("apply_patch", "*** Begin Patch", kind=ToolKind.CUSTOM),
        call("read_repo", "text", kind=ToolKind.CUSTOM),
        call("apply_patch", {}),
        call("search", {}),
    )

    assert [(each.code, each.call) for each in judge_calls(facts(*calls, request=offered))] == [
        ("tool_unknown", 1),
        ("tool_unknown", 2),
        ("tool_unknown", 3),
    ]


def test_every_call_of_an_answer_is_judged_on_its_own() -> None:
    """C001."""
    verdicts = judge_calls(facts(call("a"), call("b"), call("c"), request=request(tools=("b",))))

    assert [each.call for each in verdicts] == [0, 2]


def test_a_server_that_was_offered_may_be_asked_for_its_tools() -> None:
    """D1, C022: the agent is asked before a server's tool runs; what is allowed is the server, or that very tool."""
    server = request(tools=(Tool("mcp.mail", ToolKind.HOSTED), Tool("read_repo")))
    asked = call("mcp.mail.send", form="approval")
    assert judge_calls(facts(asked, request=server)) == ()
    for allowed in ("mcp.mail", "mcp.mail.send"):
        decision = Decision(allowed_tools=frozenset({allowed}))
        assert judge_calls(facts(asked, request=server, decision=decision)) == ()
    (verdict,) = judge_calls(facts(asked, request=server, decision=READ_ONLY))
    assert verdict.code == "tool_not_allowed"
    (verdict,) = judge_calls(facts(call("mcp.other.send", form="approval"), request=server))
    assert verdict.code == "tool_unknown"
    (verdict,) = judge_calls(facts(call("mcp.mail.send"), request=server))
    assert verdict.code == "tool_unknown"


def test_a_tool_that_the_provider_runs_is_recorded_as_not_inspected() -> None:
    """D1, C022: judged when it is offered, never again."""
    offered = request(tools=(Tool("web_search", ToolKind.HOSTED), Tool("read_repo")))
    (verdict,) = judge_request(facts(request=offered))
    assert (verdict.check, verdict.code, verdict.action) == (
        "tools.hosted",
        "hosted_not_inspected",
        Action.PASS,
    )
    hidden = judge_request(facts(request=offered, decision=READ_ONLY))
    assert [each.code for each in hidden] == ["tools_narrowed"]


def test_a_tool_that_the_provider_runs_cannot_borrow_an_allowed_name() -> None:
    """Tools are permitted by name: two of one name and different kinds are refused."""
    offered = request(tools=(Tool("read_repo", ToolKind.HOSTED), Tool("read_repo")))
    said = judge_request(facts(request=offered, decision=READ_ONLY))
    assert ("tool_ambiguous", Action.DENY) in [(each.code, each.action) for each in said]


def test_a_call_in_text_that_cannot_be_read_is_to_be_written_again() -> None:
    """C4, C5: what the model can mend goes back to it as how to mend it, whatever is on offer."""
    for offered in (TWO, request(tools=()), request(tools=(UNREADABLE,))):
        (verdict, *_) = judge_calls(facts(call(UNREADABLE, channel="react"), request=offered))
        assert (verdict.code, verdict.action) == ("tool_unknown", Action.REASK)
        assert "one call at a time" in verdict.message


def test_a_model_whose_tools_are_described_in_words_may_use_another() -> None:
    """C5, D5."""
    asked, decision = request(tools=("delete_repo",)), READ_ONLY
    (verdict,) = judge_calls(facts(call("delete_repo", channel="react"), request=asked, decision=decision))
    assert "Use another tool" in verdict.message
