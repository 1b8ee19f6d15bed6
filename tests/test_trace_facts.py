"""From what is known to attributes: right names, no content, nothing invented (F4)."""

import pytest

from proxy import semconv as name, trace_facts
from proxy.core.messages import Usage
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Outcome
from proxy.core.verdicts import Action, Mode, Verdict

from . import sample_run as sample


@pytest.mark.parametrize(
    ("url", "address", "port"),
    [
        ("https://models.example/v1", "models.example", 443),
        ("http://models.example", "models.example", 80),
        ("http://[::1]:8080/x", "::1", 8080),
    ],
)
def test_the_server_is_the_upstream_behind_the_proxy(url: str, address: str, port: int) -> None:
    assert trace_facts.server(url) == {name.SERVER_ADDRESS: address, name.SERVER_PORT: port}


@pytest.mark.parametrize("url", ["", "no url", "http://x:99999/", "http://[::1"])
def test_what_is_no_url_names_no_server(url: str) -> None:
    assert trace_facts.server(url) == {}


def test_the_query_of_a_request_is_left_out() -> None:
    attributes = trace_facts.arrived("POST", "/v1/chat?key=CANARY", "/v1/chat", "10.0.0.1", "agent/1")

    assert attributes == {
        name.HTTP_METHOD: "POST",
        name.URL_PATH: "/v1/chat",
        name.URL_SCHEME: "http",
        name.HTTP_ROUTE: "/v1/chat",
        name.PEER: "10.0.0.1",
        name.USER_AGENT: "agent/1",
    }


def test_the_run_is_the_session_and_no_conversation_is_invented() -> None:
    attributes = trace_facts.run(sample.run(state_lost=True))

    assert attributes == {name.RUN: "run_1", name.SESSION: "run_1", name.TURN: 1, name.STATE_LOST: True}
    assert name.CONVERSATION not in trace_facts.model_request("openai", sample.request())
    assert trace_facts.model_request("openai", sample.request(conversation="c1"))[name.CONVERSATION] == "c1"


def test_whoever_approved_a_call_is_told() -> None:
    """D4: in one line, whatever was typed."""
    fields = {"demand": "d", "approval": "apr_1", "status": "used", "by": "ann", "reason": "fine\nby me"}
    verdict = Verdict("approval.person", "approval_given", Action.PASS, "m", 0, fields=fields)
    facts = trace_facts.decision([verdict], Action.PASS, phase="calls", refused=False, policy="")

    assert facts[name.APPROVAL_ID] == "apr_1"
    assert facts[name.APPROVAL_STATUS] == "used"
    assert facts[name.APPROVAL_BY] == "ann"
    assert facts[name.APPROVAL_REASON] == "fine\\nby me"
    assert facts[name.DECISION] == "allow"


def test_persons_are_not_told() -> None:
    identity = Identity("key", "acme", "support", "helper", user="CANARY", claims={"email": "CANARY"})

    assert trace_facts.identity(identity) == {
        name.ORGANISATION: "acme",
        name.TEAM: "support",
        name.AGENT_NAME: "helper",
    }


def test_a_model_request_has_what_samplers_need_and_nothing_that_is_usual() -> None:
    assert trace_facts.model_request("openai", sample.request()) == {
        name.OPERATION: "chat",
        name.PROVIDER: "openai",
        name.REQUEST_MODEL: "maple-1",
        name.REQUEST_MAX_TOKENS: 100,
        name.REQUEST_STREAM: True,
        name.TOOL_DEFINITION_BYTES: 300,
    }
    plain = sample.request(stream=False, choices=2, max_output=None, tools=(), model="")
    assert trace_facts.model_request("gcp.vertex_ai", plain) == {
        name.OPERATION: "generate_content",
        name.PROVIDER: "gcp.vertex_ai",
        name.REQUEST_CHOICES: 2,
    }


def test_tokens_are_told_by_class() -> None:
    """A7: account tokens."""
    assert trace_facts.usage(Usage(200, 30, 150, 10, 5)) == {
        name.USAGE_INPUT: 200,
        name.USAGE_OUTPUT: 30,
        name.USAGE_CACHE_READ: 150,
        name.USAGE_CACHE_WRITE: 10,
        name.USAGE_REASONING: 5,
    }
    assert trace_facts.usage(Usage(1, 2)) == {name.USAGE_INPUT: 1, name.USAGE_OUTPUT: 2}
    assert name.USAGE_CACHE_WRITE_OLDER in trace_facts.usage(Usage(1, 2, 0, 1), older_names=True)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("stop", "stop"),
        ("tool_calls", "tool_calls"),
        ("tool_use", "tool_call"),
        ("end_turn", "stop"),
        ("MAX_TOKENS", "length"),
        ("STOP", "stop"),
        ("content_filter", "content_filter"),
        ("", "error"),
    ],
)
def test_finish_words_are_those_of_the_instrumentations(word: str, told: str) -> None:
    assert trace_facts.finish_word(word) == told


def test_a_finish_word_that_never_came_is_an_error() -> None:
    assert trace_facts.model_answer(sample.turn(finish=(), usage=None, id="", model="")) == {
        name.RESPONSE_FINISH: ["error"]
    }


def test_the_enforced_verdict_decides_before_a_stronger_one_in_shadow() -> None:
    shadow = sample.verdict("shadowed", action=Action.DENY, mode=Mode.SHADOW)
    enforced = sample.verdict("enforced", action=Action.NUDGE)

    assert trace_facts.deciding([shadow, enforced]) is enforced
    assert trace_facts.deciding([shadow]) is shadow
    assert trace_facts.deciding([sample.verdict(action=Action.PASS)]) is None


def test_a_denied_call_tells_who_said_it_and_never_the_message() -> None:
    """D5, F2."""
    facts = trace_facts.decision([sample.verdict()], Action.REASK, phase="calls", refused=True, policy="rev1")

    assert "CANARY" not in repr(facts)
    assert facts == {
        name.SPAN_KIND: "GUARDRAIL",
        name.PHASE: "calls",
        name.DECISION: "deny",
        name.ENFORCED: True,
        name.ACTION: "reask",
        name.POLICY_VERSION: "rev1",
        name.RULE_VERSION: "rev1",
        name.VERDICTS: ["policy.tools:tool_not_allowed:reask:enforce"],
        name.CHECK: "policy.tools",
        name.REASON: "tool_not_allowed",
        name.REASON_CLASS: "allow_list",
        name.RULE_ID: "org:allow_list",
        name.RULE_NAME: "allow_list",
        name.RULE_SET: "org",
        name.LAYER: "org",
        name.MODE: "enforce",
    }


@pytest.mark.parametrize(
    ("verdicts", "action", "refused", "decision", "enforced"),
    [
        ([], Action.PASS, False, "allow", True),
        ([sample.verdict(mode=Mode.SHADOW)], Action.PASS, False, "deny", False),
        ([sample.verdict(action=Action.NUDGE)], Action.NUDGE, False, "allow", True),
        ([], Action.PASS, True, "deny", True),
    ],
)
def test_what_was_decided_and_what_happened_are_told_apart(
    verdicts: list[Verdict], action: Action, refused: bool, decision: str, enforced: bool
) -> None:
    facts = trace_facts.decision(verdicts, action, phase="calls", refused=refused, policy="")

    assert (facts[name.DECISION], facts[name.ENFORCED]) == (decision, enforced)


def test_ids_that_this_proxy_made_are_not_told_as_the_providers() -> None:
    assert trace_facts.call(sample.call()) == {name.TOOL_NAME: "get_order", name.TOOL_CALL_ID: "call_1"}
    assert trace_facts.call(sample.call(made_id=True)) == {name.TOOL_NAME: "get_order"}
    assert name.TOOL_CALL_ID not in trace_facts.result(sample.step(), made_id=True)


def test_odd_tool_names_are_escaped_and_short() -> None:
    """C025."""
    told = trace_facts.call(sample.call("s\u0435arch\u200b\ud800" + "x" * 500))[name.TOOL_NAME]

    assert isinstance(told, str)
    assert told.startswith(r"s\u0435arch\u200b\ud800")
    assert len(told) == 64


def test_a_result_is_told_without_its_content() -> None:
    facts = trace_facts.result(sample.step(status=StepStatus.FAILED, result="CANARY", arguments="CANARY"))

    assert "CANARY" not in repr(facts)
    assert facts[name.TOOL_WAIT] == 2.5
    assert facts[name.ERROR_TYPE] == facts[name.TOOL_STATUS] == "failed"


def test_an_empty_or_forbidden_result_is_no_error_of_the_tool() -> None:
    """A6."""
    for status in (StepStatus.NOT_FOUND, StepStatus.FORBIDDEN):
        assert name.ERROR_TYPE not in trace_facts.result(sample.step(status=status))


def test_the_end_of_a_run_shows_rounds_and_the_path_taken() -> None:
    """B6, E8."""
    run = sample.run(outcome=Outcome.LIMIT_REACHED, outcome_detail="turn.rounds")

    assert trace_facts.outcome(run) == {
        name.OUTCOME: "limit_reached",
        name.OUTCOME_DETAIL: "turn.rounds",
        name.RUN_ROUNDS: 2,
        name.RUN_CALLS: 1,
        name.RUN_INPUT_TOKENS: 300,
        name.RUN_OUTPUT_TOKENS: 40,
    }
