"""Rule data: strict where it is written, narrow where it is merged."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from proxy.engines.marked import Marked, read_marked
from proxy.engines.rules import LayerRules, RuleData, checked, doubtful, fold_names, layers, merged
from tests.asked import asked, codes, decided, with_rules


def faults(text: str) -> list[str]:
    _, found = checked(read_marked("rules.yaml", text), RuleData)
    return [str(fault) for fault in found]


def test_what_is_said_is_kept_and_nothing_else() -> None:
    text = """
org:
  allowed_tools: [a, "b*"]
  tools:
    a: {effect: read, arguments: {x.y: {pattern: '\\d+', in_results_of: b, min: 2.0, max: 2.5}}}
  limits: {turn: {seconds: 1.5, per_tool: {a: 0}}}
"""
    tree, found = checked(read_marked("rules.yaml", text), RuleData)

    assert found == []
    assert tree == {
        "org": {
            "allowed_tools": ["a", "b*"],
            "tools": {
                "a": {
                    "effect": "read",
                    "arguments": {"x.y": {"pattern": "[0-9]+", "in_results_of": ["b"], "min": 2, "max": 2.5}},
                }
            },
            "limits": {"turn": {"seconds": 1.5, "per_tool": {"a": 0}}},
        }
    }
    assert str(tree["org"]["tools"]["a"]["arguments"]["x.y"]["min"]) == "2"


def test_values_of_a_layer_are_kept_as_they_are() -> None:
    """What a layer's own Rego needs to know has any form."""
    text = "agents: {bot: {values: {free: {gold: {economy: 3}}, names: [a, no], at: 2024-05-15}}}"
    tree, found = checked(read_marked("rules.yaml", text), RuleData)

    assert found == []
    assert tree["agents"]["bot"]["values"] == {
        "free": {"gold": {"economy": 3}},
        "names": ["a", "no"],
        "at": "2024-05-15",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "org:\n  alowed_tools: []",
            "rules.yaml:2:3: error: org.alowed_tools: there is no such key; did you mean allowed_tools?",
        ),
        (
            "org:\n  tools:\n    x:\n      arguments:\n        a: {patern: b}",
            "rules.yaml:5:13: error: org.tools.x.arguments.a.patern: there is no such key; did you mean pattern?",
        ),
        ("nothing_like_it: 1", "nothing_like_it: there is no such key"),
        ("profile: lax", "rules.yaml:1:1: error: profile: "),
        ("org: {tools: {x: {effect: delete}}}", "org.tools.x.effect: "),
        ("org: {tools: {x: {polling: 'true'}}}", "org.tools.x.polling: "),
        ("org: {tools: {x: {approval: optional}}}", "org.tools.x.approval: "),
        ("org: {tools: {x: {idempotency_argument: 'a.*'}}}", "there is no * in it"),
        ("org: {approvals: {effects: [delete]}}", "org.approvals.effects.0: "),
        ("org: {approvals: {effect: [write]}}", "there is no such key; did you mean effects?"),
        ("org: {tools: {x: {arguments: {a: {pattern: '\\b'}}}}}", "read differently"),
        ("org: {tools: {x: {arguments: {a: {pattern: '('}}}}}", "cannot be compiled"),
        ("org: {tools: {x: {arguments: {a: {equals: null}}}}}", "has to be a text, a number, true or false"),
        ("org: {tools: {x: {arguments: {a: {one_of: []}}}}}", "one_of: "),
        ("org: {tools: {x: {arguments: {a: {one_of: [{}]}}}}}", "has to be a text"),
        ("org: {tools: {x: {arguments: {a..b: {required: true}}}}}", "a path is made of names"),
        ("org: {tools: {x: {arguments: {a: {in_user_text: false}}}}}", "in_user_text: "),
        ("org: {tools: {x: {arguments: {a: {named_by: []}}}}}", "named_by: "),
        ("org: {tools: {x: {arguments: {a: {owned_by: {tool: read}}}}}}", "owned_by.owner: is missing"),
        (
            "org: {tools: {x: {arguments: {a: {owned_by: {tool: r, object: id, owner: o, equals: identity.name}}}}}}",
            "identity has user, organisation",
        ),
        (
            "org: {tools: {x: {arguments: {a: {owned_by: {tool: r, object: id, owner: o, equals: me}}}}}}",
            "or TOOL.ARGUMENT",
        ),
        (
            "org: {tools: {x: {arguments: {a: {as_shown: {tool: r, object: id, field: f, argment: b}}}}}}",
            "there is no such key; did you mean argument?",
        ),
        (
            "org: {tools: {x: {arguments: {a: {as_shown: {tool: r, object: 'id.*', field: f}}}}}}",
            "there is no * in it",
        ),
        ("org: {tools: {x: {arguments: {a: {max: '5'}}}}}", "max: "),
        ("org: {tools: {x: {status_rules: [{contains: a}]}}}", "status_rules.0.status: is missing"),
        ("org: {tools: {x: {status_rules: [{contains: a, status: pending}]}}}", "status_rules.0.status: "),
        ("org: {limits: {turn: {rounds: null}}}", "org.limits.turn.rounds: "),
        ("org: {limits: {turn: {rounds: -1}}}", "org.limits.turn.rounds: "),
        ("org: {limits: {turn: {rounds: 1.5}}}", "org.limits.turn.rounds: "),
        ("org: {limits: {run: {seconds: 0}}}", "org.limits.run.seconds: "),
        ("org: {limits: {brakes: {same_call_stp: 1}}}", "did you mean same_call_stop?"),
        ("org: {roles: {clerk: [a]}}", "org.roles.clerk: "),
        ("teams: {blue: {agents: {}}}", "teams.blue.agents: there is no such key"),
        ("[]", "the file: "),
        ("org: []", "rules.yaml:1:1: error: org: "),
    ],
)
def test_what_is_wrong_is_said_with_place_and_name(text: str, complaint: str) -> None:
    found = faults(text)

    assert any(complaint in fault for fault in found), found


def test_a_layer_of_its_own_file_is_named_in_full() -> None:
    _, (fault,) = checked(Marked("rules.yaml", {"rols": {}}), LayerRules, ("teams", "blue"))

    assert str(fault) == "rules.yaml: error: teams.blue.rols: there is no such key; did you mean roles?"


def test_later_files_join_maps_and_replace_the_rest() -> None:
    first = {"profile": "strict", "org": {"allowed_tools": ["a"], "tools": {"a": {"risk": "low"}}}}
    second = {
        "org": {"allowed_tools": ["b"], "tools": {"a": {"effect": "read"}, "b": {}}},
        "teams": {"t": {}},
    }

    assert merged([first, second]) == {
        "profile": "strict",
        "org": {"allowed_tools": ["b"], "tools": {"a": {"risk": "low", "effect": "read"}, "b": {}}},
        "teams": {"t": {}},
        "agents": {},
    }
    assert first["org"]["allowed_tools"] == ["a"]  # type: ignore[index]  # the value is a map


def test_the_strictest_profile_counts() -> None:
    assert merged([{"profile": "strict"}, {"profile": "starter"}])["profile"] == "strict"
    assert merged([{}])["profile"] == "starter"


def test_names_that_refuse_are_folded() -> None:
    data = merged([{"org": {"denied_tools": ["Send_Mail"], "tools": {"Pay": {}, "pay": {}}}}])
    fold_names(data)

    assert data["org"]["denied_tools"] == ["Send_Mail", "send_mail"]
    assert data["org"]["folded"] == {"pay": ["Pay", "pay"]}
    assert [name for name, _ in layers(data)] == ["org"]


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        ({"profile": "strict"}, "every tool is refused"),
        ({"profile": "strict", "agents": {"a": {"allowed_tools": ["x"]}}}, "only agent.a may use tools"),
        ({"profile": "strict", "org": {"tools": {"x": {}}}}, None),
        ({"org": {"allowed_tools": ["x"]}, "teams": {"t": {"allowed_tools": ["x", "y"]}}}, "team.t lists y"),
        ({"org": {"allowed_tools": ["x*"]}, "teams": {"t": {"allowed_tools": ["xy"]}}}, None),
        ({"org": {"roles": {"r": {"tools": ["x"]}}}, "teams": {"t": {"allowed_tools": ["x"]}}}, None),
    ],
)
def test_what_is_likely_not_meant_is_a_warning(data: dict[str, Any], warning: str | None) -> None:
    found = [fault.message for fault in doubtful(merged([data]), "rules.yaml")]

    assert (warning in found[0]) if warning else found == []


# --- narrowing ----------------------------------------------------------------------------------------------------

TOOLS = ["read", "write", "Send_Mail", "mcp__x"]
NAMES = st.lists(st.sampled_from([*TOOLS, "send_mail", "mcp__*", "*"]), max_size=4)
CONSTRAINTS = st.fixed_dictionaries(
    {},
    optional={
        "equals": st.sampled_from(["A1", 5]),
        "not_one_of": st.just(["b2"]),
        "pattern": st.just("^[A-Z]"),
        "max": st.integers(0, 9),
        "in_user_text": st.just(True),
        "in_results_of": st.just(["read"]),
        "named_by": st.just(["user", "read"]),
        "owned_by": st.just({"tool": ["read"], "object": "id", "owner": "o", "equals": "identity.user"}),
        "required": st.booleans(),
    },
)
LAYERS: Any = st.fixed_dictionaries(
    {},
    optional={
        "allowed_tools": NAMES,
        "denied_tools": NAMES,
        "roles": st.dictionaries(
            st.sampled_from(["clerk", "boss"]), st.fixed_dictionaries({"tools": NAMES}), max_size=2
        ),
        "tools": st.dictionaries(
            st.sampled_from(TOOLS),
            st.fixed_dictionaries(
                {},
                optional={
                    "effect": st.sampled_from(["read", "write"]),
                    "risk": st.sampled_from(["low", "medium", "high"]),
                    "roles": st.lists(st.sampled_from(["clerk", "boss"]), max_size=2),
                    "approval": st.just("required"),
                    "repeatable": st.booleans(),
                    "idempotency_argument": st.sampled_from(["id", "n"]),
                    "arguments": st.dictionaries(st.sampled_from(["id", "n"]), CONSTRAINTS, max_size=2),
                },
            ),
            max_size=3,
        ),
        "approvals": st.fixed_dictionaries(
            {},
            optional={
                "effects": st.lists(st.sampled_from(["read", "write", "unknown"]), max_size=2),
                "risks": st.lists(st.sampled_from(["low", "medium", "high", "unknown"]), max_size=2),
                "unless_roles": st.just(["boss"]),
            },
        ),
        "limits": st.fixed_dictionaries(
            {},
            optional={
                "turn": st.fixed_dictionaries(
                    {}, optional={"calls": st.integers(0, 9), "rounds": st.integers(0, 9)}
                )
            },
        ),
    },
)
QUESTIONS = st.builds(
    lambda names, roles, arguments: asked(
        identity={"team": "blue", "agent": "bot", "user": "ann", "roles": roles},
        tools=[{"name": name, "folded": name.lower()} for name in TOOLS],
        calls=[
            {"index": place, "id": "", "name": name, "folded": name.lower(), "arguments": arguments}
            for place, name in enumerate(names)
        ],
        task={"user_text": "A1", "user_texts": ["A1"], "folded": "a1"},
    ),
    st.lists(st.sampled_from(TOOLS), min_size=1, max_size=2),
    st.lists(st.sampled_from(["clerk", "boss"]), unique=True),
    st.sampled_from([{}, {"id": "A1"}, {"id": "b2", "n": 5}, {"n": "x"}, {"id": 5, "n": 9}]),
)
_RANKS = {"effect": ("unknown", "read", "write"), "risk": ("unknown", "low", "medium", "high")}


@pytest.mark.parametrize("profile", ["starter", "strict"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(org=LAYERS, team=LAYERS, agent=LAYERS, question=QUESTIONS)
def test_a_further_layer_never_permits_more(
    profile: str, org: dict[str, Any], team: dict[str, Any], agent: dict[str, Any], question: dict[str, Any]
) -> None:
    """F2, D4: denials and demands for a person unite, allowed tools intersect, limits take the smallest, traits the stricter; D8."""
    if profile == "strict":
        # Where the organisation lists nothing, a strict profile leaves the listing to the layers below.
        org = {"allowed_tools": ["read", "write"]} | org
    wide = {"profile": profile, "org": org}
    for narrow in (
        wide | {"teams": {"blue": team}},
        wide | {"teams": {"blue": team}, "agents": {"bot": agent}},
    ):
        before, after = decided(with_rules(wide), question), decided(with_rules(narrow), question)

        assert {str(denial) for denial in _without_words(before)} <= {
            str(denial) for denial in _without_words(after)
        }
        assert _offered(after) <= _offered(before)
        assert {str(demand) for demand in before["approvals"]} <= {
            str(demand) for demand in after["approvals"]
        }
        for unit, most in before["limits"]["turn"].items():
            assert unit == "per_tool" or after["limits"]["turn"][unit] <= most
        for name, traits in before["tools"].items():
            for trait, ranks in _RANKS.items():
                assert ranks.index(after["tools"][name][trait]) >= ranks.index(traits[trait])
            assert traits["repeatable"] or not after["tools"][name]["repeatable"]
            assert traits["idempotency_argument"] in {"", after["tools"][name]["idempotency_argument"]}
        wide = narrow


def _without_words(decision: dict[str, Any]) -> list[dict[str, Any]]:
    """Denials without their messages, which name the tools that are left."""
    return [{name: denial[name] for name in ("code", "call", "layer", "rule")} for denial in decision["deny"]]


def _offered(decision: dict[str, Any]) -> set[str]:
    return set(TOOLS) if decision["allowed_tools"] is None else set(decision["allowed_tools"])


# --- in use -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Search_Docs", "search_docs\u200b", "\uff53earch_docs", "s\u0435arch_docs", " search_docs"]
)
def test_a_list_that_permits_holds_exact_names(name: str) -> None:
    """C025, config 1."""
    evaluator = with_rules({"org": {"allowed_tools": ["search_docs"]}})

    assert codes(decided(evaluator, asked(name))) == ["tool_not_allowed"]
    assert codes(decided(evaluator, asked("search_docs"))) == []


@pytest.mark.parametrize(
    "name", ["SEND_MAIL", "send_mail ", "s\u0435nd_mail", "ｓｅｎｄ_mail", "send\u200b_mail"]
)
def test_a_list_that_refuses_is_matched_generously(name: str) -> None:
    """C025, config 2."""
    evaluator = with_rules({"org": {"denied_tools": ["Send_Mail"]}})

    assert codes(decided(evaluator, asked(name))) == ["tool_not_allowed"]
    assert codes(decided(evaluator, asked("search_docs"))) == []


def test_a_rule_on_an_argument_is_written_as_people_write_it() -> None:
    """C020: `cmd must not match 'rm\\s+-rf'`."""
    rules = {"org": {"tools": {"run_cmd": {"arguments": {"cmd": {"not_pattern": r"rm\s+-rf"}}}}}}
    evaluator = with_rules(rules)

    assert codes(decided(evaluator, asked("run_cmd", {"cmd": "rm  -rf /srv/data"}))) == ["argument_rule"]
    assert codes(decided(evaluator, asked("RUN_CMD", {"cmd": "rm\t-rf /srv/data"}))) == ["argument_rule"]
    assert codes(decided(evaluator, asked("run_cmd", {"cmd": "ls"}))) == []


def test_narrowing_may_leave_nothing() -> None:
    """C026: the model then gets no tools at all."""
    decision = decided(with_rules({"org": {"allowed_tools": ["read_repo"]}}), asked("delete_repo"))

    assert decision["allowed_tools"] == []


def test_a_key_in_another_case_is_another_key() -> None:
    """C027, answer 5: what has no constraint is the schema's business; the constrained one is judged as it is."""
    rules = {"org": {"tools": {"open_file": {"arguments": {"path": {"starts_with": "/srv/notes/"}}}}}}
    evaluator = with_rules(rules)

    assert codes(decided(evaluator, asked("open_file", {"path": "/srv/notes/a", "Path": "/srv/keys"}))) == []
    assert codes(decided(evaluator, asked("open_file", {"Path": "/srv/notes/a"}))) == ["argument_rule"]
    assert codes(decided(evaluator, asked("open_file", {"path": "/srv/notes/../keys"}))) == ["argument_rule"]


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ({"id": "A1"}, []),
        ({}, []),
        ({"id": "A1", "to": "x"}, ["argument_rule"]),
        ({"id": {"x": 1}}, ["argument_rule"]),
    ],
)
def test_arguments_that_are_not_named_can_be_refused(arguments: dict[str, Any], refused: list[str]) -> None:
    """D2: a call carries what its rules name, and nothing beside it."""
    tool = {"other_arguments": "refuse", "arguments": {"id": {"required": False}}}

    assert codes(decided(with_rules({"org": {"tools": {"read": tool}}}), asked("read", arguments))) == refused
