"""What OpenTelemetry's own variables ask for, and the few defaults that its SDK leaves wrong for a proxy.

Pure: it reads the mapping it is given. The variables themselves are the SDK's business.
"""

from __future__ import annotations

from collections.abc import Mapping

SIGNALS = ("TRACES", "METRICS", "LOGS")
LATEST_NAMES = "gen_ai_latest_experimental"
_CAPTURING = frozenset({"true", "span_only", "span_and_event"})


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether any variable says where telemetry goes. Otherwise nothing is recorded, and nothing is sent anywhere."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_CONFIG_FILE"):
        return True
    return any(_exporter(environment, signal) not in {"", "none"} for signal in SIGNALS)


def defaults(environment: Mapping[str, str], service_name: str) -> dict[str, str]:
    """Variables to be set where the operator left them open.

    An endpoint alone does nothing in the Python SDK: it makes `otlp` the exporter here. OTLP without a protocol would
    be gRPC: it is HTTP with protobuf here. The service's name yields to both variables that can name it. Dropped and
    failed exports are counted in metrics of the SDK's own (C035).
    """
    wanted = {f"OTEL_{signal}_EXPORTER": _exporter(environment, signal) for signal in SIGNALS}
    wanted["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf"
    wanted["OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED"] = "true"
    if "service.name=" not in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").replace(" ", ""):
        wanted["OTEL_SERVICE_NAME"] = service_name
    return {name: value for name, value in wanted.items() if value and not environment.get(name)}


def captures_content(environment: Mapping[str, str]) -> bool:
    """Whether the variable that users know from other instrumentations asks for messages on spans."""
    said = environment.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
    return said.strip().lower() in _CAPTURING


def _exporter(environment: Mapping[str, str], signal: str) -> str:
    said = environment.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    if said:
        return said
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return "otlp" if any(environment.get(endpoint) for endpoint in endpoints) else ""
