"""From what Callgate knows to span attributes. Pure, and no content: texts and arguments are `trace_content`'s."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from proxy.core.messages import Request, ToolCall, Turn, Usage
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step
from proxy.core.verdicts import Action, Verdict, strongest

from . import printable, semconv as name

Value = str | bool | int | float | Sequence[str]
Attributes = dict[str, Value]

TOOL_FAULTS = frozenset({StepStatus.FAILED, StepStatus.TEMPORARILY_UNAVAILABLE})
_REASON_LENGTH = 200
_MOST_VERDICTS = 32
_ID_LENGTH = 128
_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}
"""Words that the instrumentations of the providers' own SDKs translate; others are passed on."""


def operation(provider: str) -> str:
    """The conventional operation of a provider's main route."""
    return "generate_content" if provider.startswith("gcp.") else "chat"


def server(base_url: str) -> Attributes:
    """Address and port behind a base URL; nothing for what is none."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    if not host:
        return {}
    return {name.SERVER_ADDRESS: host, name.SERVER_PORT: port or (80 if parts.scheme == "http" else 443)}


def arrived(method: str, path: str, route: str, peer: str, user_agent: str) -> Attributes:
    """Attributes of the SERVER span that are known when the request arrives. The query is left out: it may hold keys."""
    attributes: Attributes = {
        name.HTTP_METHOD: printable.name(method, 16),
        name.URL_PATH: printable.name(path.partition("?")[0], 256),
        name.URL_SCHEME: "http",
    }
    optional = (
        (name.HTTP_ROUTE, route),
        (name.PEER, peer),
        (name.USER_AGENT, printable.name(user_agent, 256)),
    )
    return attributes | {key: value for key, value in optional if value}


def run(run: Run) -> Attributes:
    """Which run this belongs to."""
    attributes: Attributes = {name.RUN: run.id, name.SESSION: run.id, name.TURN: run.turn}
    if run.state_lost:
        attributes[name.STATE_LOST] = True
    return attributes


def identity(identity: Identity) -> Attributes:
    """Who calls, as far as it is an organisation's own name; persons are left out."""
    known = (
        (name.ORGANISATION, identity.organisation),
        (name.TEAM, identity.team),
        (name.AGENT_NAME, identity.agent),
    )
    return {key: printable.name(value) for key, value in known if value}


def model_request(provider: str, request: Request) -> Attributes:
    """Attributes of the CLIENT span that samplers may look at, and the request's own."""
    attributes: Attributes = {name.OPERATION: operation(provider), name.PROVIDER: provider}
    if request.model:
        attributes[name.REQUEST_MODEL] = printable.name(request.model, _ID_LENGTH)
    if request.max_output is not None:
        attributes[name.REQUEST_MAX_TOKENS] = request.max_output
    if request.choices != 1:
        attributes[name.REQUEST_CHOICES] = request.choices
    if request.stream:
        attributes[name.REQUEST_STREAM] = True
    if request.conversation:
        attributes[name.CONVERSATION] = printable.name(request.conversation, _ID_LENGTH)
    if request.tools:
        attributes[name.TOOL_DEFINITION_BYTES] = sum(tool.size for tool in request.tools)
    return attributes


def model_answer(turn: Turn, *, older_names: bool = False) -> Attributes:
    """What is known of an answer once it has ended. A finish word that never came is `error`."""
    attributes: Attributes = {
        name.RESPONSE_FINISH: [finish_word(word) for word in turn.finish[:_MOST_VERDICTS]] or ["error"]
    }
    if turn.id:
        attributes[name.RESPONSE_ID] = printable.name(turn.id, _ID_LENGTH)
    if turn.model:
        attributes[name.RESPONSE_MODEL] = printable.name(turn.model, _ID_LENGTH)
    return attributes | (usage(turn.usage, older_names=older_names) if turn.usage else {})


def finish_word(word: str) -> str:
    """A provider's finish word in the words of the conventions; one provider's plural stays as its own SDK has it."""
    plain = printable.name(word.lower(), 32)
    if "tool" in plain and not plain.endswith("calls"):
        return "tool_call"
    return _FINISH.get(plain, plain) or "error"


def usage(usage: Usage, *, older_names: bool = False) -> Attributes:
    """Tokens as billed; the parts only where there are any."""
    cache_write = name.USAGE_CACHE_WRITE_OLDER if older_names else name.USAGE_CACHE_WRITE
    parts = (
        (name.USAGE_CACHE_READ, usage.cache_read_tokens),
        (cache_write, usage.cache_write_tokens),
        (name.USAGE_REASONING, usage.reasoning_tokens),
    )
    attributes: Attributes = {name.USAGE_INPUT: usage.input_tokens, name.USAGE_OUTPUT: usage.output_tokens}
    return attributes | {key: count for key, count in parts if count}


def deciding(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict that stands for a decision: the strongest that is enforced, else the strongest in shadow."""
    verdicts = tuple(verdicts)
    acting = strongest(verdicts)
    if acting is not None:
        return acting
    return max(
        (verdict for verdict in verdicts if verdict.action > Action.PASS),
        key=lambda verdict: verdict.action,
        default=None,
    )


def decision(
    verdicts: Sequence[Verdict], action: Action, *, phase: str, refused: bool, policy: str
) -> Attributes:
    """Attributes of a decision span. `refused` is what happened, `action` what was enforced."""
    chief = deciding(verdicts)
    denied = refused or (chief is not None and chief.action > Action.NUDGE)
    attributes: Attributes = {
        name.SPAN_KIND: name.GUARDRAIL,
        name.PHASE: phase,
        name.DECISION: "deny" if denied else "allow",
        name.ENFORCED: refused or not denied,
        name.ACTION: action.name.lower(),
    }
    if policy:
        attributes |= {
            name.POLICY_VERSION: printable.name(policy, 80),
            name.RULE_VERSION: printable.name(policy, 80),
        }
    if verdicts:
        attributes[name.VERDICTS] = [_in_short(verdict) for verdict in verdicts[:_MOST_VERDICTS]]
    return attributes | _approval(verdicts) | (_said(chief) if chief is not None else {})


def _approval(verdicts: Iterable[Verdict]) -> Attributes:
    """Who was asked about the call, and what they said."""
    fields = next((verdict.fields for verdict in verdicts if "approval" in verdict.fields), {})
    parts = (
        (name.APPROVAL_ID, "approval"),
        (name.APPROVAL_STATUS, "status"),
        (name.APPROVAL_BY, "by"),
        (name.APPROVAL_REASON, "reason"),
    )
    return {key: printable.name(str(fields[part]), _REASON_LENGTH) for key, part in parts if fields.get(part)}


def _said(verdict: Verdict) -> Attributes:
    attributes: Attributes = {
        name.CHECK: verdict.check,
        name.REASON: printable.name(verdict.code),
        name.RULE_ID: printable.name(
            ":".join(part for part in (verdict.layer, verdict.rule or verdict.code) if part)
        ),
        name.RULE_NAME: printable.name(verdict.rule or verdict.code),
        name.MODE: verdict.mode.value,
    }
    if verdict.layer:
        attributes |= {
            name.LAYER: printable.name(verdict.layer),
            name.RULE_SET: printable.name(verdict.layer),
        }
    if verdict.reason_class:
        attributes[name.REASON_CLASS] = printable.name(verdict.reason_class)
    return attributes


def _in_short(verdict: Verdict) -> str:
    code = printable.name(verdict.code)
    return f"{verdict.check}:{code}:{verdict.action.name.lower()}:{verdict.mode.value}"


def call(call: ToolCall) -> Attributes:
    """Which call. An id that this proxy made up is left out: the conventions forbid inventing one."""
    attributes: Attributes = {name.TOOL_NAME: printable.name(call.name)}
    if call.id and not call.made_id:
        attributes[name.TOOL_CALL_ID] = printable.name(call.id, _ID_LENGTH)
    return attributes


def result(step: Step, *, made_id: bool = False) -> Attributes:
    """What came of a released call."""
    attributes: Attributes = {
        name.TOOL_NAME: printable.name(step.tool),
        name.TOOL_STATUS: step.status.value,
        name.STEP: step.number,
        name.TURN: step.turn,
        name.ROUND: step.round,
    }
    if step.call_id and not made_id:
        attributes[name.TOOL_CALL_ID] = printable.name(step.call_id, _ID_LENGTH)
    if step.result_at is not None and step.released_at:
        attributes[name.TOOL_WAIT] = round(max(0.0, step.result_at - step.released_at), 6)
    if step.status in TOOL_FAULTS:
        attributes[name.ERROR_TYPE] = step.status.value
    return attributes


def outcome(run: Run) -> Attributes:
    """How a run ended and what it took (B6, E8)."""
    spent = run.spent
    attributes: Attributes = {
        name.OUTCOME: run.outcome.value,
        name.RUN_ROUNDS: spent.rounds,
        name.RUN_CALLS: spent.calls,
        name.RUN_INPUT_TOKENS: spent.input_tokens,
        name.RUN_OUTPUT_TOKENS: spent.output_tokens,
    }
    if run.outcome_detail:
        attributes[name.OUTCOME_DETAIL] = printable.name(run.outcome_detail, 80)
    return attributes
