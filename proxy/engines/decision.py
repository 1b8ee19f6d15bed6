"""The decision document: checked for shape before anybody acts on it. Whatever is not exactly a decision is a fault,
and a fault is a refusal; nothing here is guessed or mended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from proxy.core.limits import Bounds, Brakes, Limits, nano_usd
from proxy.core.results import StatusRule, StepStatus, ToolTraits
from proxy.core.verdicts import Action, Cited, Decision, Demand, Denial
from proxy.errors import EngineFault

from .document import build_input

__all__ = ["build_input", "read_decision"]

ACTIONS = {"reask": Action.REASK, "finish": Action.FINISH, "deny": Action.DENY}
MAX_MESSAGE = 2000
MAX_DENIALS = 1000
_MEMBERS = frozenset({"deny", "allowed_tools", "limits", "tools", "shadow", "approvals", "cited"})
_DENIAL_MEMBERS = frozenset({"code", "call", "message", "action", "layer", "rule", "shadow"})
_DEMAND_MEMBERS = _DENIAL_MEMBERS - {"action", "shadow"}
_CITED_MEMBERS = frozenset({"values", "tools", "message", "layer", "rule", "shadow"})
_LIMIT_MEMBERS = frozenset({"turn", "run", "brakes"})
_BOUNDS = frozenset({"rounds", "calls", "input_tokens", "output_tokens", "total_tokens"})
_BRAKES = frozenset(
    {
        "same_call_nudge",
        "same_call_stop",
        "same_result_stop",
        "cycle_rounds",
        "transient_retries",
        "insisted_refusals",
        "refusals",
    }
)
_LISTS = ("volatile_arguments", "volatile_results", "identity_fields")
_CODE = re.compile(r"[a-z][a-z0-9_]*")
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

T = TypeVar("T")


def read_decision(document: object, revision: str) -> Decision:
    """The decision that an engine gave. Raises EngineFault for anything that is not exactly one."""
    body = _members(document, "the decision", _MEMBERS, needed=_MEMBERS)
    denials = [*_denials(body["deny"], "deny"), *_denials(body["shadow"], "shadow")]
    names = body["allowed_tools"]
    return Decision(
        denials=tuple(denials),
        demands=tuple(_demands(body["approvals"])),
        cited=tuple(_cited(body["cited"])),
        allowed_tools=None if names is None else frozenset(_texts(names, "allowed_tools")),
        limits=_limits(body["limits"]),
        traits={
            name: _traits(traits, f"tools.{name}")
            for name, traits in _members(body["tools"], "tools").items()
        },
        revision=revision,
    )


def _wrong(what: str) -> EngineFault:
    return EngineFault(f"the policy gave no decision: {what}")


def _is(value: Any, kind: type[T], what: str) -> T:
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
        return value
    raise _wrong(f"{what} is not of the right kind")


def _members(
    value: object, what: str, known: frozenset[str] | None = None, needed: frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    members: Mapping[str, Any] = _is(value, dict, what)
    if known is not None and (unknown := members.keys() - known):
        raise _wrong(f"{what} has an unknown member {min(unknown)[:80]!a}")
    if missing := needed - members.keys():
        raise _wrong(f"{what} has no {min(missing)}")
    return members


def _texts(value: object, what: str) -> tuple[str, ...]:
    return tuple(_is(each, str, f"an entry of {what}") for each in _is(value, list, what))


def _count(value: object, what: str, least: int = 0) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    number = _is(value, int, what)
    if number < least:
        raise _wrong(f"{what} is less than {least}")
    return number


# --- denials ------------------------------------------------------------------------------------------------------


def _denials(value: object, what: str) -> list[Denial]:
    entries = _is(value, list, what)
    if len(entries) > MAX_DENIALS:
        raise _wrong(f"{what} has more than {MAX_DENIALS} entries")
    return [_denial(entry, what) for entry in entries]


def _code(value: object) -> str:
    code = _is(value, str, "a code")
    if not _CODE.fullmatch(code):
        raise _wrong(f"{code[:80]!a} is no code: small letters, digits and _")
    return code


def _demands(value: object) -> list[Demand]:
    entries = _is(value, list, "approvals")
    if len(entries) > MAX_DENIALS:
        raise _wrong(f"approvals has more than {MAX_DENIALS} entries")
    return [_demand(entry) for entry in entries]


def _cited(value: object) -> list[Cited]:
    entries = _is(value, list, "cited")
    if len(entries) > MAX_DENIALS:
        raise _wrong(f"cited has more than {MAX_DENIALS} entries")
    return [_one_cited(entry) for entry in entries]


def _one_cited(value: object) -> Cited:
    entry = _members(value, "an entry of cited", _CITED_MEMBERS, _CITED_MEMBERS)
    return Cited(
        values=_texts(entry["values"], "the values of cited"),
        tools=frozenset(_texts(entry["tools"], "the tools of cited")),
        message=_message(_is(entry["message"], str, "a message")),
        layer=_is(entry["layer"], str, "a layer"),
        rule=_is(entry["rule"], str, "a rule"),
        shadow=_is(entry["shadow"], bool, "shadow"),
    )


def _demand(value: object) -> Demand:
    entry = _members(value, "an entry of approvals", _DEMAND_MEMBERS, frozenset({"code", "message"}))
    call = entry.get("call")
    return Demand(
        code=_code(entry["code"]),
        message=_message(_is(entry["message"], str, "a message")),
        call=None if call is None else _count(call, "the call of a demand"),
        layer=_is(entry.get("layer", ""), str, "a layer"),
        rule=_is(entry.get("rule", ""), str, "a rule"),
    )


def _denial(value: object, what: str) -> Denial:
    entry = _members(value, f"an entry of {what}", _DENIAL_MEMBERS, frozenset({"code", "message"}))
    action = _is(entry.get("action", "reask"), str, "an action")
    if action not in ACTIONS:
        raise _wrong(f"{action[:80]!a} is no action: {', '.join(ACTIONS)}")
    call = entry.get("call")
    return Denial(
        code=_code(entry["code"]),
        message=_message(_is(entry["message"], str, "a message")),
        call=None if call is None else _count(call, "the call of a denial"),
        action=ACTIONS[action],
        layer=_is(entry.get("layer", ""), str, "a layer"),
        rule=_is(entry.get("rule", ""), str, "a rule"),
        shadow=what == "shadow",
    )


def _message(text: str) -> str:
    """For the model or the user: bounded, and without characters that steer a terminal."""
    text = _CONTROL.sub(" ", text).strip()
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


# --- limits and traits --------------------------------------------------------------------------------------------


def _limits(value: object) -> Limits:
    limits = _members(value, "limits", _LIMIT_MEMBERS)
    brakes = _members(limits.get("brakes", {}), "limits.brakes", _BRAKES)
    # What policy does not say is None here: the configured brakes then count.
    said = {
        name: _count(brakes[name], f"limits.brakes.{name}") if name in brakes else None for name in _BRAKES
    }
    return Limits(
        turn=_bounds(limits.get("turn", {}), "limits.turn"),
        run=_bounds(limits.get("run", {}), "limits.run"),
        brakes=Brakes(**said),
    )


def _bounds(value: object, what: str) -> Bounds:
    bounds = _members(value, what, _BOUNDS | {"seconds", "usd", "per_tool"})
    counts = {name: _count(bounds[name], f"{what}.{name}") for name in _BOUNDS & bounds.keys()}
    per_tool = _members(bounds.get("per_tool", {}), f"{what}.per_tool")
    return Bounds(
        seconds=_amount(bounds.get("seconds"), f"{what}.seconds"),
        nano_usd=nano_usd(_amount(bounds.get("usd"), f"{what}.usd")),
        per_tool={name: _count(count, f"{what}.per_tool.{name}") for name, count in per_tool.items()},
        rounds=counts.get("rounds"),
        calls=counts.get("calls"),
        input_tokens=counts.get("input_tokens"),
        output_tokens=counts.get("output_tokens"),
        total_tokens=counts.get("total_tokens"),
    )


def _amount(value: object, what: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _wrong(f"{what} is not of the right kind")
    if value < 0:
        raise _wrong(f"{what} is less than 0")
    return float(value)


def _traits(value: object, what: str) -> ToolTraits:
    known = frozenset(
        {
            "effect",
            "risk",
            "status_rules",
            "polling",
            "truncate",
            "fence",
            "repeatable",
            "idempotency_argument",
            *_LISTS,
        }
    )
    traits = _members(value, what, known)
    effect = _is(traits.get("effect", "unknown"), str, f"{what}.effect")
    risk = _is(traits.get("risk", "unknown"), str, f"{what}.risk")
    if effect not in {"read", "write", "unknown"}:
        raise _wrong(f"{what}.effect is none")
    if risk not in {"low", "medium", "high", "unknown"}:
        raise _wrong(f"{what}.risk is none")
    lists = {name: _texts(traits.get(name, []), f"{what}.{name}") for name in _LISTS}
    return ToolTraits(
        effect=effect,
        risk=risk,
        status_rules=tuple(
            _status_rule(rule, what) for rule in _is(traits.get("status_rules", []), list, what)
        ),
        polling=_is(traits.get("polling", False), bool, f"{what}.polling"),
        truncate=_count(traits.get("truncate", 0), f"{what}.truncate"),
        fence=_is(traits.get("fence", False), bool, f"{what}.fence"),
        repeatable=_is(traits.get("repeatable", False), bool, f"{what}.repeatable"),
        idempotency_argument=_is(traits.get("idempotency_argument", ""), str, f"{what}.idempotency_argument"),
        **lists,
    )


def _status_rule(value: object, what: str) -> StatusRule:
    members = frozenset({"contains", "status"})
    rule = _members(value, f"{what}.status_rules", members, needed=members)
    status = _is(rule["status"], str, f"{what}.status_rules")
    if status not in set(StepStatus) - {StepStatus.PENDING, StepStatus.REFUSED}:
        raise _wrong(f"{what}.status_rules has a status that is none")
    return StatusRule(_is(rule["contains"], str, what), StepStatus(status))
