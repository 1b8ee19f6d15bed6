"""`policies/schemas/input.json`, against which authors may check their rules, is exactly what policies are asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import Message, Request, Role, Tool, ToolCall, ToolKind, Turn
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Outcome, Run, Step
from proxy.demo import Answer, Call
from proxy.engines import Engine, open_policies
from proxy.engines.document import build_input
from proxy.engines.samples import sample_inputs
from tests.asked import Configured, shipped
from tests.dialects.speakers import SPEAKERS, Asked, Said
from tests.playbook import play

POLICIES = Path(__file__).parent.parent.parent / "policies"
SCHEMA: dict[str, Any] = json.loads((POLICIES / "schemas/input.json").read_text())
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
RESULTS = ('{"id": "A1"}', '[1, {"a": null}]', "no such order", "", '{"error": "FORBIDDEN"}')

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
steps = st.builds(
    Step,
    number=st.integers(1, 9),
    turn=st.integers(1, 3),
    round=st.integers(1, 3),
    call_id=texts,
    tool=texts,
    arguments=st.sampled_from(['{"id": "A1"}', "[1]", "x", ""]),
    fingerprint=texts,
    status=st.sampled_from(StepStatus),
    released_at=st.floats(0, 2e9),
    result_at=st.none() | st.floats(0, 2e9),
    result=st.sampled_from(RESULTS),
    refused_as=texts,
)


def faults(document: Mapping[str, object]) -> list[str]:
    """What of the document is not in the schema, or is missing."""
    return [f"{fault.instance_path}: {fault.message}" for fault in VALIDATOR.iter_errors(document)]


@given(
    phase=st.sampled_from(["request", "calls", "answer"]),
    said=st.lists(texts, max_size=3),
    past=st.lists(steps, max_size=3),
    outcome=st.sampled_from(Outcome),
    arguments=st.none() | objects,
    kind=st.sampled_from(ToolKind),
    claims=objects,
    with_results=st.booleans(),
)
def test_whatever_is_asked_fits(
    *,
    phase: str,
    said: list[str],
    past: list[Step],
    outcome: Outcome,
    arguments: dict[str, object] | None,
    kind: ToolKind,
    claims: dict[str, object],
    with_results: bool,
) -> None:
    """F3: and nothing is there that the schema does not name."""
    usable = json.loads(json.dumps([claims, arguments]).replace("\\u0000", "").replace("\\ud", "d"))
    request = Request(
        "test",
        "m",
        tuple(Message(Role.USER, text) for text in said),
        (Tool("a"), Tool("web", ToolKind.HOSTED, options={"type": "web"})),
    )
    run = Run("r", "k", 1.0, steps=tuple(past), outcome=outcome)
    document = build_input(
        phase,
        Identity(claims=usable[0]),
        request,
        run,
        [ToolCall("c", "a", "text", kind=kind)],
        [usable[1]],
        now=2.0,
        answer=Turn(text="Done.") if phase == "answer" else None,
        with_results=with_results,
    )

    assert faults(document) == []


def test_the_samples_fit_and_use_all_of_it() -> None:
    """Nothing in the schema is a relic: each property stands in some document."""
    documents = list(sample_inputs(shipped()))
    assert [faults(document) for document in documents] == [[]] * len(documents)

    request = Request("test", "m", (), (Tool("web", ToolKind.HOSTED, options={"type": "web"}),))
    texts_of_steps = Step(1, 1, 1, "c", "a", "{}", "f", StepStatus.FOUND, result="no JSON")
    run = Run("r", "k", 1.0, steps=(texts_of_steps, replace(texts_of_steps, number=2, result="[1]")))
    free = ToolCall("c", "a", "text", kind=ToolKind.CUSTOM)
    documents.append(build_input("calls", Identity(), request, run, [free], [None], now=2.0))

    used = {path for document in documents for path in _paths(document)}
    assert _named(SCHEMA) - used == set()


def _paths(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield f"{path}/{name}"
            yield from _paths(part, f"{path}/{name}")
    elif isinstance(value, list):
        for part in value:
            yield from _paths(part, path)


def _named(schema: Mapping[str, Any], path: str = "") -> set[str]:
    named = set()
    for name, part in schema.get("properties", {}).items():
        named |= {f"{path}/{name}"} | _named(part, f"{path}/{name}")
    return named | (_named(schema["items"], path) if "items" in schema else set())


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "later"},
        {"more": 1},
        {"now_ns": "1"},
        {"calls": [{"index": 0}]},
        {"identity": {"organisation": ""}},
    ],
)
def test_anything_else_does_not_fit(change: dict[str, object]) -> None:
    """A check that cannot fail is none."""
    document = next(sample_inputs(shipped()))

    assert faults(document | change) != []


def test_the_example_in_the_readme_fits() -> None:
    """What authors read is what they get."""
    blocks = re.findall(r"```json\n(.*?)```", (POLICIES / "README.md").read_text(), re.DOTALL)
    (example,) = [json.loads(block) for block in blocks if '"phase"' in block]

    assert faults(example) == []


class Listening:
    """An engine, and what it was asked."""

    def __init__(self, engine: Engine, asked: list[Mapping[str, object]]) -> None:
        self._engine = engine
        self._asked = asked

    @property
    def revision(self) -> str:
        """Of the engine."""
        return self._engine.revision

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """As the engine decides."""
        self._asked.append(document)
        return await self._engine.decide(document)

    async def close(self) -> None:
        """Closes the engine."""
        await self._engine.close()


async def test_what_the_proxy_asks_fits_in_every_dialect(tmp_path: Path) -> None:
    """C1, F3: real requests, each with a past call and its result, and a call to be judged."""
    documents: list[Mapping[str, object]] = []
    policies = await open_policies(
        Configured(deadline_seconds=20), lambda engine: Listening(engine, documents)
    )
    try:
        async with play(tmp_path, policies=policies) as stage:
            for dialect, speaker in SPEAKERS.items():
                del documents[:]
                past = Said((("call_1", "look_up", {"id": "A1"}),), ('{"id": "A1", "found": true}',))
                path, body = speaker.says(Asked(("look_up",), (past,)))
                stage.provider.script(Answer(calls=(Call("look_up", {"id": "A2"}),)))
                answer = await stage.post(path, body)

                assert answer.status == 200, (dialect, answer.body)
                assert {document["phase"] for document in documents} >= {"request", "calls"}, dialect
                assert [fault for document in documents for fault in faults(document)] == [], dialect
    finally:
        await policies.close()
