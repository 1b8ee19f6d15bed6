"""What OpenTelemetry's variables ask for (F4)."""

import pytest

from proxy.otel_environment import captures_content, defaults, is_wanted


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c:4318/v1/logs"}, True),
        ({"OTEL_CONFIG_FILE": "otel.yaml"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": " TRUE "}, False),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318",
                "OTEL_TRACES_EXPORTER": "none",
                "OTEL_METRICS_EXPORTER": "none",
                "OTEL_LOGS_EXPORTER": "none",
            },
            False,
        ),
    ],
)
def test_only_a_variable_that_says_where_to_turns_telemetry_on(
    environment: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(environment) is wanted


def test_an_endpoint_makes_otlp_over_http_the_exporter_of_every_signal() -> None:
    assert defaults({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "callgate") == {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED": "true",
        "OTEL_SERVICE_NAME": "callgate",
    }


def test_an_endpoint_of_one_signal_turns_on_that_signal_alone() -> None:
    set_now = defaults({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, "callgate")

    assert set_now["OTEL_TRACES_EXPORTER"] == "otlp"
    assert "OTEL_METRICS_EXPORTER" not in set_now


def test_what_the_operator_said_stays() -> None:
    said = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_TRACES_EXPORTER": "otlp,console",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED": "false",
        "OTEL_RESOURCE_ATTRIBUTES": "team=a, service.name=guard",
    }

    assert defaults(said, "callgate") == {}


@pytest.mark.parametrize(
    ("said", "captures"),
    [
        ("", False),
        ("NO_CONTENT", False),
        ("EVENT_ONLY", False),
        ("true", True),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
    ],
)
def test_the_variable_for_content_that_users_know_is_heard(said: str, captures: bool) -> None:
    assert captures_content({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": said}) is captures
