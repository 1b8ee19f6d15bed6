"""A layer below can only narrow: limits take the smallest, whoever is not known has the organisation alone (F2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.asked import asked, decided, with_rules

COUNTS, POSITIVE = st.integers(0, 9), st.integers(1, 9)
UNITS = ("rounds", "calls", "input_tokens", "output_tokens", "total_tokens", "usd")
BRAKES = (
    "same_call_nudge",
    "same_call_stop",
    "same_result_stop",
    "cycle_rounds",
    "insisted_refusals",
    "refusals",
)
Rules = Mapping[str, Any]


def some(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these members."""
    return st.fixed_dictionaries({}, optional=parts)


PER_TOOL = st.dictionaries(st.sampled_from(["read", "write"]), COUNTS, max_size=2)
SCOPES = some(**dict.fromkeys(UNITS, COUNTS), seconds=POSITIVE, per_tool=PER_TOOL)
LIMITS = some(
    turn=SCOPES, run=SCOPES, brakes=some(**dict.fromkeys(BRAKES, POSITIVE), transient_retries=COUNTS)
)


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every figure by its path."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif value is not None:
        yield path, value


@settings(max_examples=40, deadline=None)
@given(org=LIMITS, team=LIMITS, agent=LIMITS)
def test_every_limit_takes_the_smallest_of_all_layers(org: Rules, team: Rules, agent: Rules) -> None:
    """F2: money, tokens, time, counts and brakes, in each scope."""
    layers: list[dict[str, Any]] = [
        {"org": {"limits": org}},
        {"teams": {"blue": {"limits": team}}},
        {"agents": {"bot": {"limits": agent}}},
    ]
    trees = [layers[0], layers[0] | layers[1], layers[0] | layers[1] | layers[2]]
    said = [dict(leaves(decided(with_rules(tree), asked())["limits"])) for tree in trees]

    for above, below in pairwise(said):
        assert all(below[path] <= figure for path, figure in above.items())
    smallest: dict[tuple[str, ...], Any] = {}
    for each in (org, team, agent):
        for path, figure in leaves(each):
            smallest[path] = min(figure, smallest.get(path, figure))
    assert said[-1] == smallest


@settings(max_examples=20, deadline=None)
@given(team=LIMITS, denies=st.booleans())
def test_a_team_that_nobody_knows_has_the_organisation_alone(team: Rules, *, denies: bool) -> None:
    """F2: no more, and no less."""
    org = {"allowed_tools": ["read"], "limits": {"turn": {"calls": 3}}}
    blue = {"limits": team, "denied_tools": ["read"]} if denies else {"limits": team}
    question = asked(identity={"team": "nobody", "agent": "nobody", "user": "ann", "roles": []})

    alone = decided(with_rules({"org": org}), question)
    assert decided(with_rules({"org": org, "teams": {"blue": blue}}), question) == alone
