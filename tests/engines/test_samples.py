"""Samples that policies have to decide before they are put in force."""

import json

from proxy.engines.decision import read_decision
from proxy.engines.samples import sample_inputs
from tests.asked import decided, evaluator_of, shipped


def test_every_layer_is_asked_in_every_phase() -> None:
    asked = [
        (each["identity"]["team"], each["identity"]["agent"], each["phase"])
        for each in sample_inputs(shipped())
    ]

    assert len(asked) == len(set(asked)) == 3 * len(shipped().layers)


def test_the_shipped_policies_decide_them() -> None:
    evaluator = evaluator_of(shipped())
    for document in sample_inputs(shipped()):
        assert read_decision(decided(evaluator, json.loads(json.dumps(document))), "r").revision == "r"


def test_tools_that_rule_data_describes_are_called() -> None:
    calls = next(each for each in sample_inputs(shipped()) if each["phase"] == "calls")["calls"]

    assert {"get_order", "pay_invoice"} <= {call["name"] for call in calls}
