"""The Converse API as a whole: its routes."""

from proxy.dialects import RouteKind
from proxy.dialects.bedrock import BEDROCK_CONVERSE


def test_other_formats_and_later_answers_are_refused_with_a_reason() -> None:
    """C021."""
    refused = {route.path for route in BEDROCK_CONVERSE.routes if route.kind is RouteKind.REFUSED}
    assert {"/model/{model}/invoke", "/model/{model}/invoke-with-response-stream", "/async-invoke"} <= refused
    assert all(route.reason for route in BEDROCK_CONVERSE.routes if route.path in refused)


def test_models_may_be_named_by_arns() -> None:
    routes = [route for route in BEDROCK_CONVERSE.routes if "{model}" in route.path]
    assert all(route.encoded_slash for route in routes)
