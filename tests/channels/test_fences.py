"""Code fences, and whole code actions (C5, C6)."""

import pytest
from smolagents.utils import parse_code_blobs  # type: ignore[import-untyped]  # it ships no types

from proxy.channels import ChannelOptions
from proxy.channels.fences import Fences, may_be_python
from tests.channels.forms import calls_in, scanned

CHANNEL = Fences(ChannelOptions(code_tool="python_interpreter"))


@pytest.mark.parametrize(
    "text",
    [
        "Thought: x\n<code>\nread(4)\n</code>",
        "Thought: x\n```python\nread(4)\n```",
        "Thought: x\n```py\nread(4)\n```<end_code>",
        "```pythonread(4)\n```",
        "read(4)",
        "for n in range(3):\n    read(n)\n",
    ],
)
def test_what_smolagents_would_run_is_found(text: str) -> None:
    """C6: the judged code is the code that runs."""
    code = parse_code_blobs(text, ("<code>", "</code>")).strip()
    ((name, arguments),) = calls_in(scanned("fences", text))
    assert name == "python"
    assert code in arguments.replace("\\n", "\n")


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        ("I will look", False),
        ("Thought: I should look", False),
        ("if x:", True),
        ("x = [1,", True),
        ("", True),
    ],
)
def test_words_are_soon_known_for_words(text: str, may_be: bool) -> None:
    """C6: only what may be code is held back."""
    assert may_be_python(text) is may_be


def test_an_answer_by_program_ends_the_loop() -> None:
    code = parse_code_blobs(CHANNEL.answer('It is "over".'), ("<code>", "</code>"))
    assert code == 'final_answer("It is \\"over\\".")'


def test_calls_are_written_as_they_are_read() -> None:
    calls = [("python_interpreter", '{"code": "read(4)"}'), ("read", '{"id": 4}')]
    assert "read(4)" in CHANNEL.written(calls)
    assert calls_in(scanned("fences", CHANNEL.written(calls[1:]))) == calls[1:]


def test_code_is_judged_under_the_configured_name() -> None:
    (rule,) = [rule for rule in CHANNEL.rules if rule.opener == "<code>"]
    assert rule.read is not None
    assert rule.read("read(4)") == [("python_interpreter", '{"code": "read(4)"}')]
