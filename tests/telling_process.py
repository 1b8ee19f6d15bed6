"""One whole run told by a process of its own, as the OTEL_* variables it was given say. Prints seconds as JSON."""

import asyncio
import json
import os
import sys
import time

from proxy.core.messages import Turn
from proxy.core.runs import Outcome
from proxy.core.verdicts import Action
from proxy.settings import Telemetry as Settings
from proxy.telemetry import Telemetry
from tests import sample_run as sample


def tell_a_run(telemetry: Telemetry) -> None:
    """Two requests: one call released and one refused; a result, an answer, an end."""
    trace = telemetry.request(sample.arrival({}))
    carrier = trace.belongs_to(sample.run(), is_new=True)
    first = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)
    first.first_chunk()
    first.finished(sample.turn(), 200)
    now = time.time_ns()
    trace.decision(sample.call(), [], Action.PASS, enforced=False, started_ns=now)
    refused = sample.call("delete_all", id="call_2")
    trace.decision(refused, [sample.verdict()], Action.REASK, enforced=True, started_ns=now)
    trace.finish(200)
    run = sample.run(trace=carrier, outcome=Outcome.COMPLETED)
    trace = telemetry.request(sample.arrival({}))
    trace.belongs_to(run, is_new=False)
    trace.tool_result(sample.step(), run)
    second = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=2, attempt=1)
    second.finished(Turn(id="2", finish=("stop",)), 200)
    trace.run_ended(run)
    trace.finish(200)


def main() -> None:
    """Tells as many runs as RUNS says, then closes."""
    telemetry = Telemetry.from_environment(Settings())
    begun = time.monotonic()
    for _ in range(int(os.environ.get("RUNS", "1"))):
        tell_a_run(telemetry)
    told = time.monotonic()
    asyncio.run(telemetry.close())
    closed = time.monotonic()
    measured = {"on": telemetry._spans.figures.on, "telling": told - begun, "closing": closed - told}
    sys.stdout.write(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main()
