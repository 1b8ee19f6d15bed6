"""Names of attributes, events and metrics, in one place.

The conventions for generative AI live in a repository of their own since May 2026, without a release or a Python
package; the constants of the Python packages are deprecated. So these are our own, pinned by a test. What the
conventions do not have (decisions, runs, budgets) is under `callgate.`, which is the stable contract of this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# --- HTTP, network, session (stable core conventions) -------------------------------------------------------

HTTP_METHOD = "http.request.method"
HTTP_STATUS = "http.response.status_code"
HTTP_ROUTE = "http.route"
HTTP_RESEND = "http.request.resend_count"
URL_PATH = "url.path"
URL_SCHEME = "url.scheme"
PEER = "network.peer.address"
USER_AGENT = "user_agent.original"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"
SESSION = "session.id"

# --- generative AI -------------------------------------------------------------------------------------------

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_CHOICES = "gen_ai.request.choice.count"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH = "gen_ai.response.finish_reasons"
RESPONSE_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT = "gen_ai.usage.input_tokens"
USAGE_OUTPUT = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
AGENT_NAME = "gen_ai.agent.name"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - an attribute, no secret
TOKEN_MODALITY = "gen_ai.token.modality"  # noqa: S105 - as above

USAGE_CACHE_WRITE_OLDER = "gen_ai.usage.cache_creation.input_tokens"
"""Up to semantic conventions 1.41; what several viewers still read."""

# --- rules, and what makes viewers show a guardrail --------------------------------------------------------------

RULE_NAME = "security_rule.name"
RULE_SET = "security_rule.ruleset.name"
RULE_VERSION = "security_rule.version"
SPAN_KIND = "openinference.span.kind"
GUARDRAIL = "GUARDRAIL"

# --- Callgate's own ------------------------------------------------------------------------------------------------

RUN = "callgate.run.id"
TURN = "callgate.turn"
ROUND = "callgate.round"
ATTEMPT = "callgate.attempt"
STEP = "callgate.step"
DIALECT = "callgate.dialect"
ORGANISATION = "callgate.organisation"
TEAM = "callgate.team"
PHASE = "callgate.phase"
DECISION = "callgate.decision"
"""allow or deny: what was decided."""
ENFORCED = "callgate.enforced"
"""Whether it happened so; false where what denied runs in shadow."""
ACTION = "callgate.action"
REASON = "callgate.reason"
"""The machine word of the verdict that decided; never its message, which may quote arguments."""
REASON_CLASS = "callgate.reason.class"
CHECK = "callgate.check"
RULE_ID = "callgate.rule.id"
LAYER = "callgate.layer"
MODE = "callgate.mode"
POLICY_VERSION = "callgate.policy.version"
VERDICTS = "callgate.verdicts"
"""All verdicts about the call, each as `check:code:action:mode`."""
APPROVAL_ID = "callgate.approval.id"
APPROVAL_STATUS = "callgate.approval.status"
APPROVAL_BY = "callgate.approval.by"
"""Who decided: what the person, or the system that spoke for one, said of itself."""
APPROVAL_REASON = "callgate.approval.reason"
TOOL_STATUS = "callgate.tool.status"
TOOL_TIMING = "callgate.tool.timing"
OBSERVED = "observed_by_proxy"
TOOL_WAIT = "callgate.tool.round_trip"
OUTCOME = "callgate.run.outcome"
OUTCOME_DETAIL = "callgate.run.outcome.detail"
RUN_ROUNDS = "callgate.run.rounds"
RUN_CALLS = "callgate.run.calls"
RUN_INPUT_TOKENS = "callgate.run.input_tokens"
RUN_OUTPUT_TOKENS = "callgate.run.output_tokens"
STATE_LOST = "callgate.run.state_lost"
TOOL_DEFINITION_BYTES = "callgate.request.tool_definitions.bytes"
LINK = "callgate.link"
BUDGET_UNIT = "callgate.budget.unit"
BUDGET_SCOPE = "callgate.budget.scope"
STORE_OPERATION = "callgate.store.operation"

EVENT_TOOL_RESULT = "callgate.tool.result"
EVENT_RUN_ENDED = "callgate.run.ended"
EVENT_DECISION = "callgate.decision"

OTHER = "_OTHER"
"""What the conventions write for a value outside the known set."""

# --- metrics -------------------------------------------------------------------------------------------------------


class Kind(StrEnum):
    """What an instrument does with a value."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric. `edges` are the bucket bounds of a histogram, in its unit."""

    name: str
    kind: Kind
    unit: str
    description: str
    edges: tuple[float, ...] = ()


SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = tuple(float(4**power) for power in range(14))
HTTP_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
SHORT_SECONDS = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    1.0,
    5.0,
)
DOLLARS = tuple(0.0001 * 4**power for power in range(12))
COUNTS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 100.0)
RATIOS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

INFERENCE_DURATION = "gen_ai.client.inference.duration"
FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.client.inference.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.client.inference.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.client.inference.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.client.inference.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.client.inference.usage.reasoning.output_tokens"
INPUT_TOKENS_EACH = "gen_ai.client.inference.operation.input_tokens"
OUTPUT_TOKENS_EACH = "gen_ai.client.inference.operation.output_tokens"
OPERATION_DURATION = "gen_ai.client.operation.duration"
TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - a metric, no secret
HTTP_DURATION = "http.server.request.duration"
DECISIONS = "callgate.decisions"
VERDICT_COUNT = "callgate.verdicts"
RUNS_STARTED = "callgate.runs.started"
RUNS_ENDED = "callgate.runs.ended"
RUN_ROUNDS_EACH = "callgate.run.rounds"
RUN_CALLS_EACH = "callgate.run.calls"
RUN_TOKENS_EACH = "callgate.run.tokens"
RUN_COST_EACH = "callgate.run.cost"
RUN_SECONDS = "callgate.run.duration"
BUDGET_LEFT_RATIO = "callgate.run.budget.left"
DECISION_DURATION = "callgate.decision.duration"
APPROVALS = "callgate.approvals"
APPROVAL_WAIT = "callgate.approval.wait"
GATE_HOLD = "callgate.gate.hold"
ENGINE_DURATION = "callgate.engine.duration"
STORE_DURATION = "callgate.store.duration"
POLICY_SHADOW = "callgate.policy.shadow"
POLICY_RELOADS = "callgate.policy.reloads"
POLICY_RESULT = "callgate.policy.result"
UPSTREAM_FAULTS = "callgate.upstream.faults"
TOOL_ROUND_TRIP = "callgate.tool.round_trip.duration"


def _counter(name: str, unit: str, description: str) -> Instrument:
    return Instrument(name, Kind.COUNTER, unit, description)


def _histogram(name: str, unit: str, description: str, edges: tuple[float, ...]) -> Instrument:
    return Instrument(name, Kind.HISTOGRAM, unit, description, edges)


INSTRUMENTS = (
    _histogram(INFERENCE_DURATION, "s", "Duration of model requests.", SECONDS),
    _histogram(FIRST_CHUNK, "s", "Time to the first chunk of streamed answers.", SECONDS),
    _counter(INPUT_TOKENS, "{token}", "Input tokens, cached ones included."),
    _counter(OUTPUT_TOKENS, "{token}", "Output tokens, reasoning included."),
    _counter(CACHE_READ_TOKENS, "{token}", "Input tokens read from a cache."),
    _counter(CACHE_WRITE_TOKENS, "{token}", "Input tokens written to a cache."),
    _counter(REASONING_TOKENS, "{token}", "Output tokens spent on reasoning."),
    _histogram(INPUT_TOKENS_EACH, "{token}", "Input tokens of each model request.", TOKENS),
    _histogram(OUTPUT_TOKENS_EACH, "{token}", "Output tokens of each model request.", TOKENS),
    _histogram(HTTP_DURATION, "s", "Duration of the agents' requests.", HTTP_SECONDS),
    _counter(DECISIONS, "{decision}", "Judged calls, by what was decided."),
    _counter(VERDICT_COUNT, "{verdict}", "What checks said, shadow included."),
    _counter(RUNS_STARTED, "{run}", "Runs seen for the first time."),
    _counter(RUNS_ENDED, "{run}", "Runs that got an outcome."),
    _histogram(RUN_ROUNDS_EACH, "{round}", "Model requests of each ended run.", COUNTS),
    _histogram(RUN_CALLS_EACH, "{call}", "Tool calls of each ended run.", COUNTS),
    _histogram(RUN_TOKENS_EACH, "{token}", "Tokens of each ended run.", TOKENS),
    _histogram(RUN_COST_EACH, "{USD}", "US dollars that each ended run cost, estimates included.", DOLLARS),
    _histogram(RUN_SECONDS, "s", "Time from first request to outcome of each ended run.", SECONDS),
    _histogram(BUDGET_LEFT_RATIO, "1", "Part of a limit that an ended run left unused.", RATIOS),
    _histogram(DECISION_DURATION, "s", "Duration of the judgement of a turn's calls.", SHORT_SECONDS),
    _counter(APPROVALS, "{approval}", "Calls put before a person, and what became of them."),
    _histogram(APPROVAL_WAIT, "s", "Time from the question to a person's decision.", SECONDS),
    _histogram(GATE_HOLD, "s", "How long calls of a stream were held back.", SHORT_SECONDS),
    _histogram(ENGINE_DURATION, "s", "Duration of policy decisions.", SHORT_SECONDS),
    _histogram(STORE_DURATION, "s", "Duration of store operations.", SHORT_SECONDS),
    _counter(POLICY_SHADOW, "{call}", "Calls that policies in shadow were asked about, by what came of it."),
    _counter(POLICY_RELOADS, "{reload}", "Newer policies, by result; `loaded` names the revision in force."),
    _counter(UPSTREAM_FAULTS, "{fault}", "Model requests that failed, tries included."),
    _histogram(
        TOOL_ROUND_TRIP, "s", "Release of a call to arrival of its result, seen from the proxy.", SECONDS
    ),
)

COMPAT_INSTRUMENTS = (
    _histogram(OPERATION_DURATION, "s", "Duration of model requests (older name).", SECONDS),
    _histogram(TOKEN_USAGE, "{token}", "Tokens of each model request (older name).", TOKENS),
)
"""The names of semantic conventions up to 1.41, which most dashboards still read."""
