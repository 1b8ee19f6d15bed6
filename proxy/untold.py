"""What a request costs when nothing is recorded: next to nothing. Only the agent's trace context is passed on."""

from __future__ import annotations

from collections.abc import Mapping

from .model_spans import ModelSpan
from .traces import Arrival, RequestTrace, agents_span
from .tracing import LiveSpan, Spans, complain


class UntoldRequest(RequestTrace):
    """Takes the place of a `RequestTrace` where no variable says where telemetry goes."""

    def __init__(self, spans: Spans, arrival: Arrival) -> None:
        self._agent = None
        try:
            self._agent = agents_span(spans, arrival)
        except Exception as fault:  # noqa: BLE001 - telemetry never breaks a request
            complain("agents_span", fault)

    def belongs_to(self, *_: object, **__: object) -> Mapping[str, str]:
        """Nothing that later requests could hang below."""
        return {}

    def model_call(self, **_: object) -> ModelSpan:
        """Passes the agent's trace context on."""
        return UntoldModel(self._agent)

    def identified(self, *_: object) -> None:
        """Not told."""

    def decision(self, *_: object, **__: object) -> None:
        """Not told."""

    def answer_decision(self, *_: object, **__: object) -> None:
        """Nothing."""

    def request_decision(self, *_: object, **__: object) -> None:
        """Not told."""

    def calls_held(self, *_: object) -> None:
        """Not told."""

    def tool_result(self, *_: object) -> None:
        """Not told."""

    def run_ended(self, *_: object, **__: object) -> None:
        """Not told."""

    def finish(self, *_: object, **__: object) -> None:
        """Not told."""


class UntoldModel(ModelSpan):
    """Takes the place of a `ModelSpan`."""

    def __init__(self, agent: LiveSpan | None) -> None:
        self._span = agent

    def first_chunk(self) -> None:
        """Not told."""

    def abandoned(self, *_: object) -> None:
        """Not told."""

    def finished(self, *_: object, **__: object) -> None:
        """Not told."""
