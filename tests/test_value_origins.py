"""Where values stood before a call was made."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from proxy.value_origins import Origins, loaded
from tests.asked import RULE, asked


@cache
def origins() -> Origins:
    return Origins()


def document(*results: tuple[str, str, str]) -> dict[str, Any]:
    steps = [{"tool": tool, "status": status, "result": result} for tool, status, result in results]
    return {
        "run": {"steps": steps},
        "task": {"folded": "order a123, please", "user_texts": ["Order A123, please"]},
    }


def test_each_value_is_looked_for_in_found_results_and_in_what_the_user_said() -> None:
    """D3, D12: as whole words, by the rules that will judge."""
    question = document(
        ("look", "found", "A123 and B456"), ("list", "found", "A123"), ("get", "failed", "B456")
    )
    found = origins().of({"id": ["A123"], "ids.*": ["A123", "B456", "B45"], "n": [1234]}, question)

    assert found.results == {
        "id": [frozenset({"look", "list"})],
        "ids.*": [frozenset({"look", "list"}), frozenset({"look"}), frozenset()],
        "n": [frozenset()],
    }
    assert found.said == {"id": True, "ids.*": False, "n": False}


def test_short_values_and_those_that_name_nothing_have_no_origin() -> None:
    """That `1` stands in a result says nothing."""
    found = origins().of({"a": [1, True, "yes", [], {}]}, document(("look", "found", "1 true yes")))

    assert found.results == {"a": [frozenset()] * 5}
    assert found.said == {"a": False}


def test_rule_data_is_loaded_beside_the_shipped_policies() -> None:
    evaluator = loaded({"org": {"denied_tools": ["read"]}})

    assert json.loads(evaluator.evaluate(RULE, json.dumps(asked())))["deny"][0]["rule"] == "denied_tools"
