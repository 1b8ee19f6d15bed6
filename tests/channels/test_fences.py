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
        ("I will look ", False),
        ("Thought: I should look ", False),
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


CODE = """
import os

try:
    value = f"{os.sep}" if True else {"a": [0x1f, 1_000, 1e5, b'x']}
except (OSError, ValueError) as error:
    print('it is', error, sep="")
else:
    '''Some
    text'''
@decorated
async def run(a, *, b=1) -> None:
    with open(a) as file, file:
        for line in file:
            yield line[1:2] is not None and line != b
    match a:
        case [1, *rest] if rest:
            return lambda x: x ** 2
class A(int):
    x: int = 1 \\
        + 2
"""


@pytest.mark.parametrize("place", range(1, len(CODE)))
def test_code_is_held_back_wherever_a_piece_of_it_ends(place: int) -> None:
    """C6: what was taken for words would leave, and run."""
    assert may_be_python(CODE[:place])


@pytest.mark.parametrize(
    "text",
    [
        "type Number = int\nrefund(1)",
        "def first[T](x: T): pass\nrefund(1)",
        "refund(f'{d['a']}')",
        "refund(t'{d}')",
        "try:\n    refund(1)\nexcept A, B:\n    pass",
        f"#{'x' * 300_000}\nrefund(1)",
    ],
)
def test_code_of_newer_versions_and_of_any_length_is_code(text: str) -> None:
    """Fail closed: the agent may run on another Python than the proxy."""
    assert [name for name, _ in calls_in(scanned("fences", *text.partition("\n")))] == ["python"]


def test_words_with_an_apostrophe_are_words() -> None:
    assert not may_be_python("I'll look at it.\n\nFirst, ")
