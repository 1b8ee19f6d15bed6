"""README cannot rot: its tables are the code's, its examples load and run, what the code can say stands in it."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from proxy import semconv
from proxy.assembly import running
from proxy.audit_records import DecisionRecord, RunEndRecord, StepRecord
from proxy.checks import CHECKS
from proxy.cli import app
from proxy.config import load_settings
from proxy.core.runs import Outcome
from proxy.demo import Answer, ScriptedProvider
from proxy.engines import load_bundle
from proxy.settings import Settings
from tests import readme

ROOT = readme.README.parent
TEXT = readme.README.read_text(encoding="utf-8")
BASE_URL = "http://127.0.0.1:8788"
MOST_LINES = 575
"""Of what people wrote; tables are as long as the code has it."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def words() -> set[str]:
    """All that stands as code between single backticks."""
    plain = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", plain))


def sources(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for file in sorted((ROOT / "proxy").glob(folder)):
            yield file, file.read_text(encoding="utf-8")


def strings_of(text: str) -> set[str]:
    nodes = ast.walk(ast.parse(text))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_tables_are_what_the_code_says_now() -> None:
    assert readme.rendered(TEXT) == TEXT, "README.md is behind the code: run `python -m tests.readme`"


def test_a_missing_block_is_noticed() -> None:
    with pytest.raises(ValueError, match="no block commands"):
        readme.rendered("# Callgate")


def test_it_is_short_enough_to_be_read() -> None:
    assert len(readme.prose(TEXT).splitlines()) <= MOST_LINES


# ---- what the code can say ----


def codes_of_checks() -> Iterator[tuple[str, str]]:
    """Names and codes of verdicts as the checks' sources spell them, with the file."""
    names = "|".join(check.name for check in CHECKS)
    for file, text in sources("checks/*.py"):
        for found in strings_of(text):
            if re.fullmatch(rf"(?:{names})\.[a-z_]+", found):
                yield file.name, found
        for found in re.findall(r'_verdict\(\s*"(\w+)"', text):
            yield file.name, f"{file.stem}.{found}"


def test_every_verdict_that_a_check_gives_is_in_the_table() -> None:
    found = list(codes_of_checks())
    unnamed = [f"{file}: {name}" for file, name in found if name not in words()]

    assert len(found) > 20
    assert not unnamed, "\n".join(unnamed)


def codes_of_errors() -> Iterator[tuple[str, str]]:
    """Codes of faults and problems outside the dialects, which only render them."""
    for file, text in sources("*.py", "core/*.py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith(("Fault", "Problem")):
                given = [word.value for word in node.keywords if word.arg == "code"]
                given += node.args[1:2] if getattr(node.func, "id", "") == "Problem" else []
                for each in given:
                    if isinstance(each, ast.Constant):
                        yield file.name, str(each.value)
            if isinstance(node, ast.ClassDef) and node.name.endswith("Fault"):
                for line in node.body:
                    if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code":
                        yield file.name, str(ast.literal_eval(line.value))


NEVER_SENT = frozenset({"fault", "call_incomplete"})
"""The base class's own; a record of what the agent is told in the answer."""


def test_every_error_code_is_named() -> None:
    found = [(file, code) for file, code in codes_of_errors() if code not in NEVER_SENT]
    unnamed = {f"{file}: {code}" for file, code in found if code not in words()}

    assert len({code for _, code in found}) > 15
    assert not unnamed, "\n".join(sorted(unnamed))


def test_every_header_of_ours_is_named() -> None:
    found = {
        name
        for _, text in sources("*.py", "dialects/*.py")
        for name in strings_of(text)
        if re.fullmatch(r"x-callgate-[a-z]+", name)
    }
    settings = Settings()

    assert found | settings.own_headers <= words()
    assert {"x-callgate-request", "x-callgate-run", "x-callgate-outcome"} <= found


def test_names_of_spans_metrics_and_events_exist() -> None:
    known = {value for value in vars(semconv).values() if isinstance(value, str)}
    checks = {name for _, name in codes_of_checks()}
    shown = {word for word in words() if re.fullmatch(r"(?:callgate|gen_ai|session)\.[a-z_.]+", word)}
    files = {"callgate.yaml"}

    assert shown - known - checks - files == set()
    assert {each.name for each in (*semconv.INSTRUMENTS, *semconv.COMPAT_INSTRUMENTS)} <= words()


def test_outcomes_and_codes_of_shipped_policies_exist() -> None:
    policies = "\n".join(file.read_text() for file in (ROOT / "policies" / "callgate").rglob("*.rego"))
    (listed,) = re.findall(r"Codes of the shipped policies: (.*?)\n\n", TEXT, re.DOTALL)
    ending = re.search(r"else\s(`completed`.*?)\.\n", TEXT, re.DOTALL)

    assert ending
    assert set(re.findall(r"`(\w+)`", ending[1])) <= {outcome.value for outcome in Outcome}
    assert all(f'"{code}"' in policies for code in ("tool_not_allowed", "argument_rule", "object_closed"))
    assert {"tool_not_allowed", "argument_rule", "object_closed"} <= set(re.findall(r"`(\w+)`", listed))


# ---- examples ----


def test_settings_and_rules_load(tmp_path: Path) -> None:
    names = []
    for text in blocks("yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        names.append(name)
        if name == "callgate.yaml":
            file = tmp_path / name
            file.write_text(text, encoding="utf-8")
            load_settings(file, environment={})
        else:
            bundle = load_bundle([], settings=yaml.safe_load(text))
            assert bundle.data["rules"]["org"]["allowed_tools"]

    assert sorted(names) == [*["callgate.yaml"] * 5, "rules.yaml"]


def test_the_shown_variable_is_a_setting() -> None:
    given = dict(re.findall(r"(CALLGATE_\w+__\w+)=(\S+?)[ `]", TEXT))

    load_settings(os.devnull, environment=given)
    assert len(given) == 2


def test_shown_audit_lines_have_the_shape_of_records() -> None:
    lines = [json.loads(line) for text in blocks("json") for line in text.splitlines()]
    shapes = {"step": StepRecord, "decision": DecisionRecord, "run_end": RunEndRecord}
    records = [line for line in lines if "kind" in line]

    assert len(records) == 4
    assert all(line.keys() == shapes[line["kind"]].__annotations__.keys() | stamp() for line in records)


def stamp() -> set[str]:
    return {"ts", "request_id", "run", "turn", "round"}


def test_shown_commands_and_targets_exist() -> None:
    group = typer.main.get_command(app)
    commands = getattr(group, "commands", {})
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    code = "\n".join([*blocks("sh"), *words()])
    shown = re.findall(r"callgate ([a-z]+)((?: [^\n`|]*)?)", code)

    assert {name for name, _ in shown} == set(commands)
    for name, rest in shown:
        options = {option for each in commands[name].params for option in (*each.opts, *each.secondary_opts)}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options, f"callgate {name}{rest}"
    for target in re.findall(
        r"(?:^|`)make ([a-z]+)", code + "\n" + "\n".join(f"`{word}" for word in words()), re.MULTILINE
    ):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


def test_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).strip().replace(" ", "-")
        for line in re.findall(r"^#+ (.*)", TEXT, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert target[1:] in headings if target.startswith("#") else (ROOT / target).exists(), target


USES = {
    "openai": 'print(OpenAI(base_url=URL + "/v1").chat.completions.create(model="m", messages=SAID)'
    ".choices[0].message.content, client.messages.create(model='m', max_tokens=9, messages=SAID).content[0].text)",
    "agents": 'from agents import Agent, Runner\nprint(Runner.run_sync(Agent(name="a", model="m"), "hi").final_output)',
    "langchain_openai": 'print(ChatOpenAI(model="m", base_url=URL + "/v1").invoke("hi").text, model.invoke("hi").text)',
    "pydantic_ai": 'print(agent.run_sync("hi").output)',
}
"""What is done with each snippet's objects, by a module that it imports from."""
ANSWERS = 6


def snippets() -> Iterator[tuple[str, str]]:
    for text in blocks("python"):
        compile(text, "README.md", "exec")
        (use,) = [
            USES[name]
            for name in USES
            if re.search(rf"^from {name} import", text, re.MULTILINE) and used(name, text)
        ]
        yield text, use


def used(name: str, text: str) -> bool:
    """Two snippets import the same SDK: one of them for its agents."""
    return name != "openai" or "from agents" not in text


async def test_snippets_reach_the_provider_with_only_the_base_url_changed() -> None:
    """F1."""
    async with ScriptedProvider(models=["m"]) as provider:
        provider.script(*(Answer("It works.") for _ in range(ANSWERS)))
        given = {
            "upstream.openai_chat.base_url": provider.url,
            "upstream.openai_responses.base_url": provider.url,
            "upstream.anthropic_messages.base_url": provider.url,
        }
        settings = load_settings(os.devnull, given | {"listen.port": 0, "admin.port": 0}, environment={})
        async with running(settings) as callgate:
            program = [f"URL = {callgate.url!r}\nSAID = [{{'role': 'user', 'content': 'hi'}}]"]
            program += [part.replace(BASE_URL, callgate.url) for pair in snippets() for part in pair]
            keys = {
                "OPENAI_API_KEY": "sk-test",
                "ANTHROPIC_API_KEY": "sk-test",
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
            }
            agent = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "\n".join(program),
                env={**os.environ, **keys, "NO_PROXY": "*", "LANGSMITH_TRACING": "false"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            said, complaints = await agent.communicate()

    assert agent.returncode == 0, complaints.decode()
    assert said.decode().count("It works.") == ANSWERS
    assert len(provider.seen) == ANSWERS
