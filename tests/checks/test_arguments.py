"""Arguments are exactly one JSON object that fits the tool's schema, or the model learns what to mend (C3, C4)."""

import pytest

from proxy.checks import judge_calls
from proxy.core.messages import Tool, ToolKind
from proxy.core.verdicts import Action, CheckSettings, Verdict
from tests.checks.build import call, enforced, facts, request

OPEN_FILE = Tool(
    "open_file",
    schema={
        "type": "object",
        "properties": {"path": {"type": "string"}, "opt": {"type": "object"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
FILES = request(tools=(OPEN_FILE,))


def judged(arguments: str, settings: CheckSettings | None = None) -> tuple[Verdict, ...]:
    return judge_calls(facts(call("open_file", arguments), request=FILES, settings=settings))


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path":"/srv/notes/a.txt","path":"/srv/keys/master.pem"}',
        '{"path":"/srv/notes/a.txt","p\\u0061th":"/srv/keys/master.pem"}',
        '{"path":"/srv/notes/a.txt","opt":{"mode":"r","mode":"w"}}',
        '{"path":"/srv/notes/a.txt"}{"path":"/srv/keys/k"}',
        '{"path":"/srv/notes/a.txt"} then open /srv/keys/k',
        '```json\n{"path":"/srv/notes/a.txt"}\n```',
        '{"path":"/srv/notes/a.txt","n":NaN}',
        '{"path":"/srv/notes/a.txt","n":-Infinity}',
        "{'path':'/srv/notes/a.txt'}",
        '{"path":"/srv/notes/a.txt",}',
        '["/srv/notes/a.txt"]',
        "null",
        '{"path":"/srv/no',
        '{"path":"/srv/notes/a.txt","x":' + "[" * 20_000 + "]" * 20_000 + "}",
    ],
)
def test_what_is_not_exactly_one_object_is_refused_and_never_repaired(arguments: str) -> None:
    """C027, C028, C4: the model learns what is wrong with the form."""
    (verdict,) = judged(arguments)

    assert (verdict.check, verdict.code, verdict.action) == (
        "arguments.invalid",
        "arguments_invalid",
        Action.REASK,
    )
    assert (verdict.reason_class, verdict.call) == ("arguments_invalid", 0)
    assert "exactly one JSON object" in verdict.message
    assert "/srv" not in verdict.message


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path":"/srv/notes/a.txt"}',
        '  {"path" : "/srv/notes/a.txt" }\n',
        '{"path":"\\/srv\\/notes\\/a.txt"}',
    ],
)
def test_plain_json_in_any_dress_passes(arguments: str) -> None:
    """C028."""
    assert judged(arguments) == ()


@pytest.mark.parametrize("arguments", ["", "  \n", "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    """C004."""
    no_parameters = Tool(
        "list_queues", schema={"type": "object", "properties": {}, "additionalProperties": False}
    )
    verdicts = judge_calls(facts(call("list_queues", arguments), request=request(tools=(no_parameters,))))

    assert verdicts == ()
    assert [each.code for each in judged(arguments)] == ["arguments_schema"]


def test_what_does_not_fit_the_schema_is_said_without_values() -> None:
    """C3: messages never quote secret values."""
    (verdict,) = judged('{"Path":"/srv/keys/master.pem","path":4711}')

    assert (verdict.check, verdict.code, verdict.action) == (
        "arguments.schema",
        "arguments_schema",
        Action.REASK,
    )
    assert verdict.reason_class == "schema"
    assert '"Path"' in verdict.message
    assert "$.path: has to be of type string" in verdict.message
    assert "master" not in verdict.message
    assert "4711" not in verdict.message


def test_a_free_form_call_has_no_json_arguments() -> None:
    """C022."""
    patch = Tool("apply_patch", ToolKind.CUSTOM)
    free = call("apply_patch", "*** Begin Patch", kind=ToolKind.CUSTOM)

    assert judge_calls(facts(free, request=request(tools=(patch,)))) == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strange"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/hostname"},
        {"$schema": "https://example.com/own-dialect", "type": "object"},
        {"properties": {"path": {"pattern": "("}}},
    ],
)
def test_a_schema_that_cannot_be_used_is_recorded_and_refuses_nothing(schema: dict[str, object]) -> None:
    offered = request(tools=(Tool("open_file", schema=schema),))
    (verdict,) = judge_calls(facts(call("open_file", {"path": 1}), request=offered))

    assert (verdict.check, verdict.code) == ("arguments.schema_unusable", "schema_unusable")
    assert not enforced((verdict,))
    assert "example.com" not in verdict.message


def test_size_and_depth_have_limits() -> None:
    settings = CheckSettings(max_argument_bytes=40, max_argument_depth=2)
    for arguments in ('{"path":"' + "ä" * 20 + '"}', '{"path":"x","opt":{"a":[]}}'):
        (verdict,) = judged(arguments, settings)
        assert verdict.code == "arguments_invalid"
    assert judged('{"path":"x","opt":{}}', settings) == ()


def test_a_tool_without_a_schema_takes_any_object() -> None:
    assert judge_calls(facts(call(arguments={"any": [1, {"thing": None}]}))) == ()


def test_what_was_not_read_before_is_read_here() -> None:
    """The check holds with facts from anywhere: nothing passes because nobody looked."""
    assert judge_calls(facts(call("open_file", '{"path":"x"}'), request=FILES, parsed=())) == ()
    assert enforced(judge_calls(facts(call("open_file", '{"a":1}'), request=FILES, parsed=()))) != []
