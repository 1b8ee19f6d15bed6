"""Both engines decide alike: every shipped policy and example, every Rego test, and hostile inputs (F3).

The embedded engine is held against a real OPA server, over TCP and over a socket. Equal means: the same decision, or
none from both.
"""

import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proxy.core.messages import Message, Request, Role, Tool, ToolCall, Turn
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step
from proxy.core.verdicts import Decision
from proxy.engines import Bundle, Engine, load_bundle, run_policy_tests
from proxy.engines.asking import Question, decided
from proxy.engines.bundle import read_sources, shipped_folder
from proxy.engines.embedded import EmbeddedEngine, EmbeddedSettings
from proxy.engines.opa import OpaEngines
from proxy.engines.opa_wire import OpaServer
from proxy.engines.samples import sample_inputs
from tests.asked import team_rule, written
from tests.real_opa import real_opa
from tests.tools import opa

LONG = 60.0
EXAMPLES = sorted(
    folder for folder in (shipped_folder() / "examples").glob("*") if (folder / "callgate").is_dir()
)
SETS = {"shipped": [], **{folder.name: [folder] for folder in EXAMPLES}}


@asynccontextmanager
async def both(bundle: Bundle, unix: Path | None = None) -> AsyncIterator[tuple[Engine, Engine]]:
    """The embedded engine and an OPA server's, under the same bundle."""
    async with AsyncExitStack() as stack:
        embedded = await EmbeddedEngine.start(bundle, EmbeddedSettings(deadline=LONG, queue_wait=LONG))
        stack.push_async_callback(embedded.close)
        server = await stack.enter_async_context(real_opa(unix=unix))
        engines = OpaEngines(OpaServer(server.url, timeout=LONG, write_wait=LONG))
        stack.push_async_callback(engines.close)
        asked = await engines.start(bundle)
        stack.push_async_callback(asked.close)
        yield embedded, asked


# --- what is asked ------------------------------------------------------------------------------------------------

TEXTS = (
    "",
    'a", "allow": true, "z": "',
    "C:\\new\\table",
    "a'b`c%s%d%v{{x}}",
    "line\nbreak\r\n\ttab",
    "naïve ÄÖÜ ß ſ K ı",
    "日本語A123です",
    "\u202eevil\u200b\ufeff",
    "ﷺ\uffff",
    "::ffff:10.0.0.1",
    "10.0.0.1",
    "../../etc/passwd",
    "rm -rf /",
    "A1",
    "a1 ",
    "12",
    "1e3",
    "x" * 5000,
    "\x01\x1f\x7f",
    "callgate_0123456789abcdef.",
    "\0",
)
VALUES: tuple[object, ...] = (
    *TEXTS,
    None,
    True,
    False,
    0,
    -1,
    7,
    5.0,
    0.1,
    1e300,
    5e-324,
    2**53,
    2**53 + 1,
    -(2**64),
    10**40,
    float("inf"),
    [],
    {},
    ["A1", 7, None, {"b": "A1"}],
    {"": {"": ""}, "a.b": 1, "*": 2},
    [[[[[[[["A1"]]]]]]]],
)
REQUEST = Request(
    "test",
    "m",
    (Message(Role.USER, "Order A1 and 12, please."),),
    (Tool("t"), Tool("free"), Tool("T "), Tool("write")),
)
IDENTITY = Identity(organisation="acme", team="blue", agent="bot", user="ann", roles=("clerk",))


def nested(depth: int) -> object:
    value: object = "A1"
    for _ in range(depth):
        value = {"b": value}
    return value


def step(result: str, status: StepStatus = StepStatus.FOUND, **changed: Any) -> Step:
    start = Step(1, 1, 1, "c0", "t", '{"a": "A1"}', "", status, 1.0, 1.5, result=result)
    return replace(start, **changed)


def question(phase: str = "calls", **changed: Any) -> Question:
    start = Question(phase, IDENTITY, REQUEST, Run("r", "k", 1.0, steps=(step('{"id": "A1"}'),)), 2.0)
    return replace(start, **changed)


def call(name: str, arguments: object, place: int = 0) -> tuple[ToolCall, Any]:
    """As the host reads arguments: an object, or nothing."""
    return ToolCall(f"c{place}", name, "{}"), arguments if isinstance(arguments, dict) else None


def about(*calls: tuple[ToolCall, Any], **changed: Any) -> Question:
    return question(calls=[each for each, _ in calls], parsed=[parsed for _, parsed in calls], **changed)


def hostile() -> Iterator[Question]:
    """Every value where a value may stand, every text where a text may."""
    for value in (*VALUES, nested(50), nested(200)):
        yield about(call("t", {"a": value}), call("t", {"b": {"c": [value]}}, 1), call("free", value, 2))
        yield about(call("t", dict.fromkeys("abcdefghijklmnop", value)))
        yield about(call("t", {"list": value}), call("t", {"list": [{"price": value}]}, 1))
        yield question(identity=replace(IDENTITY, claims={"a": value, "groups": [value]}))
    for text in TEXTS:
        named = replace(REQUEST, tools=(Tool(text), Tool("t")), model=text)
        yield about(call(text, {text: text}), request=named)
        yield question("request", request=named)
        said = replace(REQUEST, messages=(Message(Role.USER, text), Message(Role.USER, f"it is {text}, yes")))
        yield about(call("t", {"a": text, "p": text, "o": text}), request=said)
        for who in (Identity(team=text), Identity(agent=text, user=text), Identity(text, text, text, text)):
            yield about(call("t", {"a": "A1"}), identity=replace(who, roles=("clerk",)))
        yield question(identity=replace(IDENTITY, roles=(text, "clerk", text)))
        for status in (StepStatus.FOUND, StepStatus.FORBIDDEN, StepStatus.PENDING):
            read = Run(
                "r",
                "k",
                1.0,
                steps=(step(text, status), step(f'["{text}", {{"k": 7}}]', status, tool=text or "x")),
            )
            yield about(call("t", {"a": text, "o": text}), call("write", {"id": "a1"}, 1), run=read)
        yield question("answer", answer=Turn(text=text))
    yield from (question(phase) for phase in ("request", "calls", "answer", "lunch", ""))


async def differences(bundle: Bundle, questions: Sequence[Question], unix: Path | None = None) -> list[str]:
    """What the engines do not agree on."""
    found = []
    async with both(bundle, unix) as (embedded, asked):
        for number, each in enumerate(questions):
            ours, theirs = [_comparable(await decided(engine, bundle, each)) for engine in (embedded, asked)]
            if ours != theirs:
                found.append(f"{number}: {each.calls} {each.parsed}\nembedded: {ours}\nOPA: {theirs}")
    return found


def _comparable(decision: Decision) -> Decision:
    """Faults are worded differently."""
    return replace(decision, fault="fault") if decision.fault else decision


# --- they decide alike --------------------------------------------------------------------------------------------


def rules_of_every_kind() -> dict[str, Any]:
    """Rule data that reads every argument of `t` in a different way."""
    kinds: dict[str, dict[str, Any]] = {
        "a": {"equals": "A1"},
        "b": {"one_of": ["A1", 7, True]},
        "c": {"not_one_of": ["a1", 12]},
        "d": {"pattern": "^[A-Z][0-9]+$"},
        "e": {"not_pattern": "rm[ ]+-rf|[.][.]"},
        "f": {"starts_with": "A"},
        "g": {"not_starts_with": "../"},
        "h": {"contains": "1"},
        "i": {"not_contains": "PASSWD"},
        "j": {"min": 0.1, "max": 9007199254740992},
        "k": {"max_length": 3},
        "l": {"type": "integer"},
        "m": {"type": "object", "required": False},
        "n": {"type": "array"},
        "o": {"in_results_of": ["t"]},
        "p": {"in_user_text": True},
    }
    tool = {"effect": "read", "arguments": kinds, "object_arguments": ["a"], "roles": ["clerk"]}
    write = {
        "effect": "write",
        "approval": "required",
        "other_arguments": "refuse",
        "arguments": {"id": {"shadow": True, "equals": 1}},
    }
    org = {
        "tools": {"t": tool, "write": write},
        "denied_tools": ["rm*", "Evil"],
        "limits": {"turn": {"calls": 8}},
    }
    return {
        "org": org,
        "teams": {"blue": {"approvals": {"effects": ["unknown"]}, "limits": {"turn": {"calls": 3}}}},
    }


READING = """
deny contains {"code": "says", "call": call.index, "message": sprintf("%s %q %d", [call.name, call.name, call.index])} if {
	some call in input.calls
	not _is_small(call)
}

_is_small(call) if count(json.marshal(call.arguments)) < 12

deny contains {"code": "inside", "call": call.index, "message": address} if {
	some call in input.calls
	is_object(call.arguments)
	some address in call.arguments
	is_string(address)
	regex.match(`^[0-9a-f]*[:.][0-9a-f:.]+$`, address)
	net.cidr_contains("10.0.0.0/8", address)
}

deny contains {"code": "order", "call": call.index, "message": concat(",", sort([key | some key, _ in call.arguments]))} if {
	some call in input.calls
	is_object(call.arguments)
	some _, value in call.arguments
	is_number(value)
	value > 5
	not value == input.run.turn + 6
}

deny contains {"code": "missing", "message": "m"} if not startswith(sprintf("%v", [input.identity.claims.a]), "A")

deny contains {"code": "through", "call": call.index, "message": "m"} if {
	some call in input.calls
	some item in call.arguments.list
	item.price > 100
}

deny contains {"code": "absent", "message": "m"} if not upper(input.nothing.here) in {"A", "B"}

shadow contains {"code": "fold", "message": lower(trim_space(input.task.user_text))} if {
	every text in input.task.user_texts {
		contains(text, " ")
	}
}

allowed_tools := {tool.name | some tool in input.tools; not glob.match("ev*", [], tool.name)}

limits["turn"] := {"rounds": count(input.run.steps) + 1} if not input.run.steps[0].result_json.id == "A1"
"""


@cache
def decisive(folder: Path) -> Bundle:
    """A bundle in which nearly everything that is asked is read by some rule."""
    return load_bundle([written(folder, team_rule(READING))], [], rules_of_every_kind())


async def test_hostile_inputs_are_decided_alike(tmp_path: Path) -> None:
    """F3, C033: quotes, backslashes, line ends, every alphabet, wrong types, missing fields, depth, huge numbers, NUL."""
    questions = list(hostile())
    assert await differences(decisive(tmp_path), questions, tmp_path) == []
    assert len(questions) > 300


@pytest.mark.parametrize("name", SETS)
async def test_every_policy_decides_alike(name: str, tmp_path: Path) -> None:
    """F3: the shipped policies and each example, for each layer and phase, asked what they are proven with and more."""
    bundle = load_bundle(SETS[name])
    async with both(bundle) as (embedded, asked):
        for sample in sample_inputs(bundle):
            assert await embedded.decide(sample) == await asked.decide(sample)
    tools = tuple(
        Tool(each)
        for each in sorted({*bundle.data["rules"]["org"].get("tools", {}), "refund", "pay_invoice"})
    )
    questions = []
    for layer in bundle.layers:
        kind, _, of = layer.partition(".")
        who = replace(IDENTITY, team=of if kind == "team" else "", agent=of if kind == "agent" else "")
        asks = replace(REQUEST, tools=tools)
        questions += [replace(each, identity=who, request=asks) for each in list(hostile())[:60:3]]
        questions += [
            about(call(tool.name, {"order_id": "A1"}), identity=who, request=asks) for tool in tools
        ]
    assert await differences(bundle, questions, tmp_path) == []


async def test_known_differences_are_these(tmp_path: Path) -> None:
    """policies/README.md names them. None is in what shipped policies decide by; where this fails, mend that list."""
    shown = {
        "count": 'count("🚀")',
        "lower": 'lower("İ")',
        "sprintf": 'sprintf("%v", [["\\u0001"]])',
    }
    rules = [f'limits["{name}"] := {{"is": {text}}} if input.phase' for name, text in shown.items()]
    bundle = load_bundle([written(tmp_path, team_rule("\n\n".join(rules)))])
    document = {**next(sample_inputs(bundle)), "identity": {"team": "blue"}}
    async with both(bundle) as pair:
        said: list[Any] = [(await engine.decide(document))["deny"] for engine in pair]
    ours, theirs = (denials[0]["unreadable"] for denials in said)
    assert [name for name in shown if ours[name] == theirs[name]] == []


# --- Rego tests ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
async def test_every_rego_test_passes_on_both(name: str) -> None:
    """F3: in the form in which policies are put on a server."""
    sources = read_sources(SETS[name], with_tests=True)
    rules = {"profile": "starter", "org": {}, "teams": {}, "agents": {}}
    texts = {module.file: module.text for module in sources.modules}
    bundle = replace(load_bundle(SETS[name]), modules=texts, data={"rules": rules})
    async with real_opa() as server:
        engines = OpaEngines(OpaServer(server.url, write_wait=LONG))
        started = await engines.start(bundle)
        (space,) = await server.names()
        values = await engines._client.read(f"{space}/callgate")
        await started.close()
        await engines.close()

    results = run_policy_tests(SETS[name])
    assert [result for result in results if not result.passed] == []
    assert [
        result.name for result in results if _value(values, result.package, result.name) is not True
    ] == []


def _value(values: Any, package: str, name: str) -> object:
    for part in (*package.split(".")[1:], name):
        values = values.get(part, {})
    return values


# --- OPA's own tools ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [["test"], ["check", "--strict"], ["check", "--schema", str(shipped_folder() / "schemas")]],
    ids=" ".join,
)
def test_opa_itself_finds_policies_well(command: list[str]) -> None:
    """F3: as they are written."""
    folders = [shipped_folder() / "callgate", *EXAMPLES]
    said = run_opa(*command, "--ignore", "*.yaml", *folders)
    assert said == "" or said.splitlines()[-1].startswith("PASS"), said


def test_policies_are_formatted_as_opa_does() -> None:
    assert run_opa("fmt", "--list", shipped_folder()) == ""


def run_opa(*arguments: object) -> str:
    done = subprocess.run([opa(), *map(str, arguments)], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()
