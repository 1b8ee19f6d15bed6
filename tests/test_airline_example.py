"""The worked example: an airline's rules over a run's own history, its tests, and what it is worth on recorded runs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from proxy.config import load_settings
from proxy.demo.conversation_scores import rows, rule_rows, scored, writing_tools
from proxy.demo.conversations import Caller, play_conversations, read_conversations
from proxy.engines import load_bundle, run_policy_tests
from proxy.engines.bundle import shipped_folder
from tests import readme
from tests.asked import asked, decided, evaluator_of
from tests.conftest import need
from tests.playbook import SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FOLDER = shipped_folder() / "examples" / "airline"
OWN = FOLDER / "callgate" / "agent" / "airline"
CALLER = Caller(agent="airline")
WRITING = {
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
}


def _scores_in(file: Path) -> str:
    found = re.search(r"<!-- scores: [^\n]*-->\n(.*?)\n<!-- /scores -->", file.read_text("utf-8"), re.DOTALL)
    assert found, f"{file} has no block of scores"
    return found[1]


def _cells(head: Sequence[str], body: Sequence[Sequence[object]]) -> str:
    return readme.table(head, [[str(cell) for cell in row] for row in body])


async def test_what_the_readmes_say_is_what_is_measured() -> None:
    """D2, D3: on 100 recorded runs, every call through the whole gate."""
    folder = SHARED / "trajectories"
    need(folder.is_dir(), "the recorded runs are not beside this checkout")
    settings = load_settings(environment={"CALLGATE_POLICY__FOLDERS": json.dumps([str(FOLDER)])})
    tools = json.loads((folder / "airline_tools.json").read_text())
    writing = writing_tools(load_bundle([FOLDER]).data["rules"], CALLER)

    played = await play_conversations(
        read_conversations(folder / "airline.jsonl"), tools, settings, caller=CALLER
    )
    scores = scored(played, writing)

    assert scores is not None
    calls = _cells(("calls with side effects", "refused", "passed", "all"), rows(scores))
    rules = _cells(("refused by", "not wanted", "wanted"), rule_rows(scores))
    assert _scores_in(readme.README) == calls
    assert _scores_in(FOLDER / "README.md") == f"{calls}\n\n{rules}"
    # Nothing that only reads is refused, and a run that ended well is touched only where its text says so.
    refused = [call.tool for each in played for call in each.calls if not call.released]
    assert set(refused) <= WRITING
    assert (scores.good, {run.removeprefix("airline-") for run in scores.touched}) == (
        49,
        {"20-1", "26-0", "26-2", "34-0", "34-1", "34-3"},
    )
    assert scores.touched_without_loss == ["airline-20-1"]
    listed = (FOLDER / "README.md").read_text("utf-8")
    named = {each.run.removeprefix("airline-") for each in scores.harmful}
    assert {run for run in named if run not in listed.partition("**Not wanted, but passed")[2]} == set()
    contradictions = scores.those(wanted=True, is_refused=True)
    assert {json.dumps(each.call.arguments).split('"')[3] for each in contradictions} == set(
        re.findall(r"^\| ([A-Z0-9]{6}) \|", listed, re.MULTILINE)
    )


def test_every_writing_tool_is_declared() -> None:
    """D4: what is not declared to write would not be counted."""
    bundle = load_bundle([FOLDER])

    assert bundle.warnings == ()
    assert writing_tools(bundle.data["rules"], CALLER) == WRITING


def test_every_rego_test_of_the_example_holds() -> None:
    """D2, D3: what the rules promise is shown beside them."""
    own = [test for test in run_policy_tests([FOLDER]) if "examples" in test.file]

    assert len(own) > 40
    assert [f"{test.name} {test.message}" for test in own if not test.passed] == []


@pytest.mark.parametrize("file", sorted(OWN.glob("*.rego")), ids=lambda file: file.name)
def test_every_rule_has_its_tests_beside_it_and_says_what_it_is(file: Path) -> None:
    text = file.read_text("utf-8")
    if not file.name.endswith("_test.rego"):
        assert file.with_name(f"{file.stem}_test.rego").is_file()
        codes = re.findall(r'^\t"code": "(\w+)"', text, re.MULTILINE)
        assert set(re.findall(r"#   code: (\w+)", text)) == set(codes)
        assert len(re.findall(r"^# title: ", text, re.MULTILINE)) >= len(set(codes))


ANY_JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "R1", "ann_1", "2024-05-20", "economy"]),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(
            st.sampled_from(["flight_number", "date", "payment_id", "amount", "first_name"]),
            parts,
            max_size=3,
        )
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        [
            "reservation_id",
            "user_id",
            "cabin",
            "flights",
            "passengers",
            "payment_methods",
            "payment_id",
            "total_baggages",
            "nonfree_baggages",
            "amount",
        ]
    ),
    ANY_JSON,
)
PROFILE = {"membership": "gold", "payment_methods": {"gift_card_1": {"source": "gift_card"}}}
RESERVATION = {
    "reservation_id": "R1",
    "user_id": "ann_1",
    "origin": "JFK",
    "destination": "SFO",
    "flight_type": "one_way",
    "cabin": "economy",
    "flights": [{"flight_number": "HAT1", "date": "2024-05-20", "origin": "JFK", "destination": "SFO"}],
    "passengers": [{}],
    "created_at": "2024-05-01T10:00:00",
    "total_baggages": 0,
    "insurance": "no",
}


def _step(tool: str, arguments: object, result: object) -> dict[str, object]:
    return {"number": 1, "tool": tool, "status": "found", "arguments": arguments, "result_json": result}


@pytest.mark.parametrize("tool", sorted(WRITING))
@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    arguments=ARGUMENTS,
    strange=st.dictionaries(st.sampled_from(sorted(RESERVATION)), ANY_JSON, max_size=2),
    searched=st.lists(ANY_JSON, max_size=2),
    unread=st.sampled_from([None, {"reservation_id": "R1"}]),
)
def test_whatever_stands_in_a_call_or_a_result_is_a_decision(
    tool: str, arguments: dict[str, Any], strange: dict[str, Any], searched: list[Any], unread: object
) -> None:
    """A wrong type is refused with a reason for the model; it is no fault that would end the run."""
    steps = [
        _step("get_user_details", {"user_id": "ann_1"}, PROFILE),
        _step("get_reservation_details", unread, RESERVATION | strange),
        _step("search_direct_flight", {"date": "2024-05-20"}, searched),
        _step("search_onestop_flight", unread, searched),
    ]
    question = asked(
        identity={"team": "", "agent": "airline", "user": "", "roles": []},
        calls=[{"index": 0, "id": "", "name": tool, "folded": tool, "arguments": arguments}],
        task={"user_text": "", "user_texts": ["i am ann_1"], "folded": "i am ann_1"},
        run={"id": "r", "steps": steps},
    )

    assert isinstance(decided(_EVALUATOR, question)["deny"], list)


_EVALUATOR = evaluator_of(load_bundle([FOLDER]))
