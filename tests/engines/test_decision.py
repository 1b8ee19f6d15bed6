"""The decision document is a decision exactly, or a fault."""

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.core.limits import Bounds, Brakes, Limits
from proxy.core.results import StatusRule, StepStatus, ToolTraits
from proxy.core.verdicts import Action, Cited, Decision, Demand, Denial
from proxy.engines.decision import MAX_DENIALS, MAX_MESSAGE, read_decision
from proxy.errors import EngineFault

NONE = Brakes(None, None, None, None, None, None, None)
EMPTY: dict[str, Any] = {
    "deny": [],
    "allowed_tools": None,
    "limits": {},
    "tools": {},
    "shadow": [],
    "approvals": [],
    "cited": [],
}
CITED: dict[str, Any] = {
    "values": ["A1"],
    "tools": ["read"],
    "message": "",
    "layer": "org",
    "rule": "answers.x",
    "shadow": False,
}
FULL: dict[str, Any] = {
    "cited": [CITED],
    "deny": [
        {
            "code": "a_b",
            "message": "m",
            "call": 1.0,
            "action": "finish",
            "layer": "team.x",
            "rule": "r",
            "shadow": False,
        },
        {"code": "c", "message": "n"},
    ],
    "shadow": [{"code": "d", "message": "o", "call": None}],
    "approvals": [
        {"code": "e", "message": "p", "call": 0, "layer": "org", "rule": "s"},
        {"code": "f", "message": "q"},
    ],
    "allowed_tools": ["read"],
    "limits": {
        "turn": {"rounds": 3, "seconds": 1.5, "per_tool": {"read": 2}},
        "run": {"total_tokens": 9, "per_tool": {}},
        "brakes": {"refusals": 4},
    },
    "tools": {
        "read": {
            "effect": "read",
            "risk": "low",
            "volatile_arguments": ["t"],
            "volatile_results": [],
            "identity_fields": ["id"],
            "status_rules": [{"contains": "gone", "status": "not_found"}],
            "polling": True,
            "repeatable": True,
            "idempotency_argument": "key",
        }
    },
}


def test_nothing_said_is_nothing_said() -> None:
    assert read_decision(EMPTY, "r1") == Decision(limits=Limits(brakes=NONE), revision="r1")


def test_everything_said_is_read() -> None:
    assert read_decision(FULL, "r1") == Decision(
        denials=(
            Denial("a_b", "m", 1, Action.FINISH, "team.x", "r"),
            Denial("c", "n"),
            Denial("d", "o", shadow=True),
        ),
        demands=(Demand("e", "p", 0, "org", "s"), Demand("f", "q")),
        cited=(Cited(("A1",), frozenset({"read"}), "", "org", "answers.x"),),
        allowed_tools=frozenset({"read"}),
        limits=Limits(
            turn=Bounds(rounds=3, seconds=1.5, per_tool={"read": 2}),
            run=Bounds(total_tokens=9),
            brakes=Brakes(None, None, None, None, None, None, 4),
        ),
        traits={
            "read": ToolTraits(
                effect="read",
                risk="low",
                volatile_arguments=("t",),
                identity_fields=("id",),
                status_rules=(StatusRule("gone", StepStatus.NOT_FOUND),),
                polling=True,
                repeatable=True,
                idempotency_argument="key",
            )
        },
        revision="r1",
    )


WRONG: list[tuple[str, Any]] = [
    ("deny", "yes"),
    ("deny", {"code": "a", "message": "m"}),
    ("deny", ["yes"]),
    ("deny", [{"unreadable": "yes", "layer": "org"}]),
    ("deny", [{"code": "a"}]),
    ("deny", [{"message": "m"}]),
    ("deny", [{"code": "No Way", "message": "m"}]),
    ("deny", [{"code": "", "message": "m"}]),
    ("deny", [{"code": "a", "message": None}]),
    ("deny", [{"code": "a", "message": "m", "call": "0"}]),
    ("deny", [{"code": "a", "message": "m", "call": -1}]),
    ("deny", [{"code": "a", "message": "m", "call": 0.5}]),
    ("deny", [{"code": "a", "message": "m", "call": True}]),
    ("deny", [{"code": "a", "message": "m", "action": "nudge"}]),
    ("deny", [{"code": "a", "message": "m", "action": ["deny"]}]),
    ("deny", [{"code": "a", "message": "m", "reason": "r"}]),
    ("deny", [{"code": "a", "message": "m", "layer": 1}]),
    ("deny", [{"code": "a", "message": "m"}] * (MAX_DENIALS + 1)),
    ("shadow", None),
    ("cited", None),
    ("cited", [CITED | {"values": [1]}]),
    ("cited", [CITED | {"values": "A1"}]),
    ("cited", [CITED | {"tools": [None]}]),
    ("cited", [CITED | {"shadow": 0}]),
    ("cited", [CITED | {"more": 1}]),
    ("cited", [{"values": []}]),
    ("cited", [CITED] * (MAX_DENIALS + 1)),
    ("approvals", None),
    ("approvals", {}),
    ("approvals", ["yes"]),
    ("approvals", [{"unreadable": "yes", "layer": "org"}]),
    ("approvals", [{"message": "m"}]),
    ("approvals", [{"code": "No Way", "message": "m"}]),
    ("approvals", [{"code": "a", "message": "m", "call": "0"}]),
    ("approvals", [{"code": "a", "message": "m", "action": "deny"}]),
    ("approvals", [{"code": "a", "message": "m"}] * (MAX_DENIALS + 1)),
    ("allowed_tools", "read"),
    ("allowed_tools", [1]),
    ("allowed_tools", {"read": True}),
    ("limits", []),
    ("limits", {"day": {}}),
    ("limits", {"turn": {"rounds": "3"}}),
    ("limits", {"turn": {"rounds": -1}}),
    ("limits", {"turn": {"rounds": 1.5}}),
    ("limits", {"turn": {"rounds": None}}),
    ("limits", {"turn": {"seconds": "1"}}),
    ("limits", {"turn": {"seconds": -1}}),
    ("limits", {"turn": {"seconds": float("inf")}}),
    ("limits", {"turn": {"seconds": True}}),
    ("limits", {"turn": {"money": 1}}),
    ("limits", {"turn": {"per_tool": {"read": "2"}}}),
    ("limits", {"turn": {"per_tool": []}}),
    ("limits", {"brakes": {"refusals": None}}),
    ("limits", {"brakes": {"other": 1}}),
    ("tools", []),
    ("tools", {"read": None}),
    ("tools", {"read": {"effect": "delete"}}),
    ("tools", {"read": {"risk": 1}}),
    ("tools", {"read": {"polling": "yes"}}),
    ("tools", {"read": {"repeatable": "yes"}}),
    ("tools", {"read": {"idempotency_argument": ["key"]}}),
    ("tools", {"read": {"volatile_arguments": "t"}}),
    ("tools", {"read": {"status_rules": [{"contains": "a", "status": "refused"}]}}),
    ("tools", {"read": {"status_rules": [{"contains": "a"}]}}),
    ("tools", {"read": {"status_rules": [{"contains": 1, "status": "found"}]}}),
    ("tools", {"read": {"other": 1}}),
]


@pytest.mark.parametrize(("member", "value"), WRONG)
def test_whatever_is_no_decision_is_a_fault(member: str, value: Any) -> None:
    """C033: a result of the wrong kind refuses."""
    with pytest.raises(EngineFault, match="the policy gave no decision") as caught:
        read_decision(EMPTY | {member: value}, "r1")

    assert caught.value.code == "policy_error"


@pytest.mark.parametrize("document", [None, "yes", True, [], "<undefined>", {}, EMPTY | {"allow": True}])
def test_another_document_is_no_decision(document: Any) -> None:
    with pytest.raises(EngineFault):
        read_decision(document, "r1")


@pytest.mark.parametrize("member", sorted(EMPTY))
def test_a_decision_says_everything(member: str) -> None:
    with pytest.raises(EngineFault, match=f"has no {member}"):
        read_decision({name: value for name, value in EMPTY.items() if name != member}, "r1")


def test_messages_are_bounded_and_steer_no_terminal() -> None:
    long, odd = "x" * 3000, "a\x1b[31mb\u2028c\r\n"
    decision = read_decision(
        EMPTY | {"deny": [{"code": "a", "message": long}, {"code": "b", "message": odd}]}, ""
    )

    assert decision.denials[0].message == "x" * MAX_MESSAGE + "…"
    assert decision.denials[1].message == "a [31mb c"


def spots(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    return [path, *(found for key, part in parts for found in spots(part, (*path, key)))]


@given(
    st.sampled_from(spots(FULL)[1:]),
    st.sampled_from([None, "?!", -1, 1.5, [], {}, {"x": 1}, [None], True, "read"]),
)
def test_a_decision_that_is_changed_anywhere_is_another_decision_or_a_fault(
    path: tuple[Any, ...], value: Any
) -> None:
    document = copy.deepcopy(FULL)
    part: Any = document
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    try:
        decision = read_decision(document, "r1")
    except EngineFault:
        return

    assert isinstance(decision, Decision)
    assert not decision.fault
