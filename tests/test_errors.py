"""Four faults, each with a status, a code and a text that is safe to show."""

import pytest

from proxy.errors import ClientFault, EngineFault, Fault, StoreFault, UpstreamFault


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (ClientFault, 400, "invalid_request"),
        (UpstreamFault, 502, "upstream_error"),
        (EngineFault, 503, "policy_error"),
        (StoreFault, 503, "state_unavailable"),
    ],
)
def test_each_fault_has_its_status_and_code(fault: type[Fault], status: int, code: str) -> None:
    raised = fault("what is wrong")

    assert (raised.status, raised.code, raised.message, str(raised)) == (
        status,
        code,
        "what is wrong",
        "what is wrong",
    )


def test_a_fault_can_be_told_more_exactly() -> None:
    raised = UpstreamFault("too late", status=504, code="upstream_timeout")

    assert (raised.status, raised.code) == (504, "upstream_timeout")
    assert (UpstreamFault.status, UpstreamFault.code) == (502, "upstream_error")


def test_there_are_four_faults() -> None:
    """What is decided is a verdict and never one of these (C4)."""
    assert {fault.__name__ for fault in Fault.__subclasses__()} == {
        "ClientFault",
        "UpstreamFault",
        "EngineFault",
        "StoreFault",
    }
