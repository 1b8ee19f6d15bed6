"""Names are a contract: whoever changes one changes everybody's dashboards, so each is pinned here (F4)."""

from proxy import semconv
from proxy.semconv import COMPAT_INSTRUMENTS, INSTRUMENTS, Kind

CONVENTIONAL = {
    "AGENT_NAME": "gen_ai.agent.name",
    "CONVERSATION": "gen_ai.conversation.id",
    "ERROR_TYPE": "error.type",
    "HTTP_METHOD": "http.request.method",
    "HTTP_RESEND": "http.request.resend_count",
    "HTTP_ROUTE": "http.route",
    "HTTP_STATUS": "http.response.status_code",
    "INPUT_MESSAGES": "gen_ai.input.messages",
    "OPERATION": "gen_ai.operation.name",
    "OUTPUT_MESSAGES": "gen_ai.output.messages",
    "PEER": "network.peer.address",
    "PROVIDER": "gen_ai.provider.name",
    "REQUEST_CHOICES": "gen_ai.request.choice.count",
    "REQUEST_MAX_TOKENS": "gen_ai.request.max_tokens",
    "REQUEST_MODEL": "gen_ai.request.model",
    "REQUEST_STREAM": "gen_ai.request.stream",
    "RESPONSE_FINISH": "gen_ai.response.finish_reasons",
    "RESPONSE_FIRST_CHUNK": "gen_ai.response.time_to_first_chunk",
    "RESPONSE_ID": "gen_ai.response.id",
    "RESPONSE_MODEL": "gen_ai.response.model",
    "RULE_NAME": "security_rule.name",
    "RULE_SET": "security_rule.ruleset.name",
    "RULE_VERSION": "security_rule.version",
    "SERVER_ADDRESS": "server.address",
    "SERVER_PORT": "server.port",
    "SESSION": "session.id",
    "SPAN_KIND": "openinference.span.kind",
    "TOKEN_MODALITY": "gen_ai.token.modality",
    "TOKEN_TYPE": "gen_ai.token.type",
    "TOOL_ARGUMENTS": "gen_ai.tool.call.arguments",
    "TOOL_CALL_ID": "gen_ai.tool.call.id",
    "TOOL_NAME": "gen_ai.tool.name",
    "TOOL_RESULT": "gen_ai.tool.call.result",
    "TOOL_TYPE": "gen_ai.tool.type",
    "URL_PATH": "url.path",
    "URL_SCHEME": "url.scheme",
    "USAGE_CACHE_READ": "gen_ai.usage.cache_read.input_tokens",
    "USAGE_CACHE_WRITE": "gen_ai.usage.cache_write.input_tokens",
    "USAGE_CACHE_WRITE_OLDER": "gen_ai.usage.cache_creation.input_tokens",
    "USAGE_INPUT": "gen_ai.usage.input_tokens",
    "USAGE_OUTPUT": "gen_ai.usage.output_tokens",
    "USAGE_REASONING": "gen_ai.usage.reasoning.output_tokens",
    "USER_AGENT": "user_agent.original",
}
OWN = {
    "callgate.action",
    "callgate.approval.by",
    "callgate.approval.id",
    "callgate.approval.reason",
    "callgate.approval.status",
    "callgate.attempt",
    "callgate.budget.scope",
    "callgate.budget.unit",
    "callgate.check",
    "callgate.decision",
    "callgate.dialect",
    "callgate.enforced",
    "callgate.layer",
    "callgate.link",
    "callgate.mode",
    "callgate.organisation",
    "callgate.phase",
    "callgate.policy.result",
    "callgate.policy.version",
    "callgate.reason",
    "callgate.reason.class",
    "callgate.request.tool_definitions.bytes",
    "callgate.round",
    "callgate.rule.id",
    "callgate.run.calls",
    "callgate.run.id",
    "callgate.run.input_tokens",
    "callgate.run.outcome",
    "callgate.run.outcome.detail",
    "callgate.run.output_tokens",
    "callgate.run.rounds",
    "callgate.run.state_lost",
    "callgate.step",
    "callgate.store.operation",
    "callgate.team",
    "callgate.tool.round_trip",
    "callgate.tool.status",
    "callgate.tool.timing",
    "callgate.turn",
    "callgate.verdicts",
    "callgate.run.ended",
    "callgate.tool.result",
}
METRICS = {
    "callgate.approval.wait": "s",
    "callgate.approvals": "{approval}",
    "callgate.decision.duration": "s",
    "callgate.decisions": "{decision}",
    "callgate.engine.duration": "s",
    "callgate.gate.hold": "s",
    "callgate.run.budget.left": "1",
    "callgate.run.calls": "{call}",
    "callgate.run.duration": "s",
    "callgate.run.rounds": "{round}",
    "callgate.run.tokens": "{token}",
    "callgate.run.cost": "{USD}",
    "callgate.runs.ended": "{run}",
    "callgate.runs.started": "{run}",
    "callgate.store.duration": "s",
    "callgate.tool.round_trip.duration": "s",
    "callgate.policy.reloads": "{reload}",
    "callgate.policy.shadow": "{call}",
    "callgate.upstream.faults": "{fault}",
    "callgate.verdicts": "{verdict}",
    "gen_ai.client.inference.duration": "s",
    "gen_ai.client.inference.operation.input_tokens": "{token}",
    "gen_ai.client.inference.operation.output_tokens": "{token}",
    "gen_ai.client.inference.time_to_first_chunk": "s",
    "gen_ai.client.inference.usage.cache_read.input_tokens": "{token}",
    "gen_ai.client.inference.usage.cache_write.input_tokens": "{token}",
    "gen_ai.client.inference.usage.input_tokens": "{token}",
    "gen_ai.client.inference.usage.output_tokens": "{token}",
    "gen_ai.client.inference.usage.reasoning.output_tokens": "{token}",
    "http.server.request.duration": "s",
}
COMPAT_METRICS = {"gen_ai.client.operation.duration": "s", "gen_ai.client.token.usage": "{token}"}


def test_names_of_the_conventions_are_pinned() -> None:
    assert {name: getattr(semconv, name) for name in CONVENTIONAL} == CONVENTIONAL


def test_own_names_are_pinned() -> None:
    metrics = {each.name for each in INSTRUMENTS}
    ours = {
        value
        for name, value in vars(semconv).items()
        if name.isupper() and isinstance(value, str) and value.startswith("callgate.")
    }

    assert ours - (metrics - OWN) == OWN


def test_every_name_is_pinned_somewhere() -> None:
    values = {value for name, value in vars(semconv).items() if name.isupper() and isinstance(value, str)}

    assert values - set(CONVENTIONAL.values()) - OWN - set(METRICS) - set(COMPAT_METRICS) == {
        "GUARDRAIL",
        "_OTHER",
        "observed_by_proxy",
    }


def test_metrics_and_their_units_are_pinned() -> None:
    assert {each.name: each.unit for each in INSTRUMENTS} == METRICS
    assert {each.name: each.unit for each in COMPAT_INSTRUMENTS} == COMPAT_METRICS


def test_histograms_have_rising_edges_and_counters_none() -> None:
    for each in INSTRUMENTS + COMPAT_INSTRUMENTS:
        if each.kind is Kind.HISTOGRAM:
            assert list(each.edges) == sorted(set(each.edges)), each.name
        else:
            assert not each.edges
        assert each.description.endswith(".")


def test_edges_of_the_conventions_are_theirs() -> None:
    edges = {each.name: each.edges for each in INSTRUMENTS}

    assert edges["gen_ai.client.inference.duration"] == (
        *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
        *(1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    )
    tokens = edges["gen_ai.client.inference.operation.input_tokens"]
    assert (tokens[0], tokens[1], tokens[-1], len(tokens)) == (1, 4, 67108864, 14)
