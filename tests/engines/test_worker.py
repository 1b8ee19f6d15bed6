"""The evaluator, and its process spoken to through pipes."""

import io
import json
import signal
import struct
from typing import Any

import pytest

from proxy.engines.worker import Evaluator, RegoError, serve
from tests.asked import RULE

RULES = 'package callgate.main\n\ndecision := {"deny": [], "x": input.x}\n'


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def order(**changes: Any) -> bytes:
    plain = {
        "modules": {"main.rego": RULES},
        "data": {},
        "rule": RULE,
        "stop_after": 60.0,
        "memory": 0,
    }
    return frame(json.dumps(plain | changes).encode())


def answers(sent: bytes) -> list[tuple[bytes, Any]]:
    """What the process says, served here: mark and JSON of each frame."""
    sink = io.BytesIO()
    try:
        serve(io.BytesIO(sent), sink)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    sink.seek(0)
    found = []
    while head := sink.read(4):
        body = sink.read(struct.unpack(">I", head)[0])
        found.append((body[:1], json.loads(body[1:])))
    return found


def test_each_document_is_answered_in_order() -> None:
    sent = order() + frame(b'{"x": 1}') + frame('{"x": "é\\n\\""}'.encode())

    assert answers(sent) == [
        (b"+", {}),
        (b"+", {"deny": [], "x": 1}),
        (b"+", {"deny": [], "x": 'é\n"'}),
    ]


def test_an_undefined_decision_is_said_as_such() -> None:
    assert answers(order() + frame(b"{}"))[1] == (b"+", "<undefined>")


def test_a_document_that_is_no_json_is_a_fault_and_the_next_one_is_answered() -> None:
    marks = [mark for mark, _ in answers(order() + frame(b"{") + frame(b"\xff") + frame(b'{"x": 2}'))]

    assert marks == [b"+", b"-", b"-", b"+"]


def test_rules_that_do_not_load_are_named_with_their_place() -> None:
    ((mark, fault),) = answers(order(modules={"a.rego": "package a\n\nx := {"}) + frame(b"{}"))

    assert (mark, fault["file"], fault["line"]) == (b"-", "a.rego", 3)


def test_rules_that_only_fail_when_they_are_compiled_are_found_at_once() -> None:
    text = "package callgate.main\n\ndecision := undefined_name\n"
    ((mark, fault),) = answers(order(modules={"a.rego": text}))

    assert (mark, fault["line"], fault["column"] > 0) == (b"-", 3, True)


def test_half_a_frame_is_the_end() -> None:
    assert answers(order() + b"\0\0\0\x09{}") == [(b"+", {})]
    assert answers(b"\0") == []


def test_a_built_in_that_fails_is_an_error_with_place_and_without_a_stack() -> None:
    """C033: it must not count as no objection."""
    text = "package a\n\ndeny contains 1 if to_number(input.amount) > 100\n"
    with pytest.raises(RegoError) as caught:
        Evaluator({"a.rego": text}).evaluate("data.a.deny", '{"amount": "12x"}')

    assert str(caught.value).startswith("a.rego:3:")
    assert "could not parse string as number" in str(caught.value)
    assert "Stack" not in str(caught.value)
    assert "unknown" not in str(caught.value)


def test_a_copy_keeps_nothing_of_evaluations_before() -> None:
    evaluator = Evaluator({"a.rego": "package a\n\nx := input.x\n"})
    evaluator.evaluate("data.a.x", '{"x": 1}')

    assert evaluator.copy().evaluate("data.a.x", '{"x": 2}') == "2"


def test_deep_input_is_an_error_and_not_the_end_of_the_process() -> None:
    deep = '{"x": ' * 5000 + "1" + "}" * 5000
    with pytest.raises(RegoError):
        Evaluator({"a.rego": "package a\n\nx := input.x\n"}).evaluate("data.a.x", deep)


def test_an_error_without_a_place_has_a_message() -> None:
    assert str(RegoError("no")) == "no"
    assert str(RegoError("no", "a.rego", 1, 2)) == "a.rego:1:2: no"


def test_an_ipv4_address_in_ipv6_clothes_is_that_address() -> None:
    """As OPA has it; the engine's own function takes it for another one, and a denied network would be reached."""
    inside = [
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:a00:1",
        "0:0:0:0:0:ffff:10.0.0.1",
        "10.0.0.0/9",
        "::ffff:10.0.0.0/104",
    ]
    outside = ["11.0.0.1", "::ffff:11.0.0.1", "::a00:1", "10.0.0.0/7", "fe80::1"]
    rule = (
        "package a\n\nr := [net.cidr_contains(net, each) | some net in input.nets; some each in input.asked]"
    )
    evaluator = Evaluator({"a.rego": rule})

    for nets, asked in ((["10.0.0.0/8", "::ffff:10.0.0.0/104"], inside), (["::/0"], ["fe80::1"])):
        said = evaluator.evaluate("data.a.r", json.dumps({"nets": nets, "asked": asked}))
        assert set(json.loads(said)) == {True}
    said = evaluator.copy().evaluate("data.a.r", json.dumps({"nets": ["10.0.0.0/8"], "asked": outside}))
    assert set(json.loads(said)) == {False}


@pytest.mark.parametrize(
    ("network", "other"),
    [("10.0.0.1", "10.0.0.1"), ("10.0.0.0/8", ""), ("10.0.0.0/255.0.0.0", "10.0.0.1"), ("10.0.0.0/8", "fe80::1%eth0"),
     ("10.0.0.0/8", "010.0.0.1"), ("10.0.0.0/33", "10.0.0.1"), (7, "10.0.0.1"), ("10.0.0.0/8", 167772161)],
)  # fmt: skip
def test_what_is_no_address_is_an_error(network: object, other: object) -> None:
    evaluator = Evaluator({"a.rego": "package a\n\nr := net.cidr_contains(input.n, input.o)"})
    with pytest.raises(RegoError, match=r"net\.cidr|appear|permitted|network"):
        evaluator.evaluate("data.a.r", json.dumps({"n": network, "o": other}))
