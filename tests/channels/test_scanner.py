"""Marked regions in text that comes in pieces (C5, C6)."""

import pytest
from hypothesis import given, strategies as st

from proxy.channels import CHANNELS, ChannelOptions
from proxy.channels.scanner import Rule, Scanner, defused
from tests.channels.forms import CASES, calls_in, scanned, scanner_of

each_case = pytest.mark.parametrize(("name", "text", "calls"), CASES)


@each_case
def test_every_form_is_found(name: str, text: str, calls: list[tuple[str, str]]) -> None:
    """C5: what a model writes in this channel is the calls it stands for."""
    assert calls_in(scanned(name, text)) == calls


@each_case
def test_where_the_text_is_cut_makes_no_difference(
    name: str, text: str, calls: list[tuple[str, str]]
) -> None:
    """C6: at every place, and letter by letter."""
    whole = scanned(name, text)
    for place in range(len(text)):
        cut = scanned(name, text[:place], text[place:])
        assert (calls_in(cut), cut.cut, cut.regions) == (calls, whole.cut, whole.regions)
    assert scanned(name, *text).regions == whole.regions


@each_case
def test_what_is_settled_is_never_part_of_a_region(
    name: str, text: str, calls: list[tuple[str, str]]
) -> None:
    """C6: text that left cannot turn out to be a call."""
    del calls
    regions = scanned(name, text).regions
    scanner = scanner_of(name)
    for letter in text:
        scanner.feed(letter)
        found = scanner.settled
        assert not any(region.start < found < region.end for region in regions)
        assert all(region in regions for region in scanner.regions)


@given(st.text(alphabet='<tool_cal>/{}"name: rd,gumets\n', max_size=80), st.integers(0, 80))
def test_any_text_reads_the_same_in_two_pieces(text: str, place: int) -> None:
    """C6."""
    assert scanned("tags", text[:place], text[place:]).regions == scanned("tags", text).regions


def test_only_a_possible_beginning_is_held_back() -> None:
    """C6: and nothing else."""
    scanner = Scanner([Rule("<tool_call>", ("</tool_call>",), lambda text: [("read", text)])])
    for piece, settled in (("Hello ", 6), ("a <", 8), ("b <to", 11), ("ol_cat", 20), (" <tool_call>x", 21)):
        scanner.feed(piece)
        assert scanner.settled == settled, piece


def test_a_result_that_the_model_made_up_is_cut_off() -> None:
    """C6: it and all that follows; a mark of results without a call before it is plain text."""
    found = scanned("react", "Action: read\nAction Input: x\nObservation: 7\nThought: so\nFinal Answer: 7")
    assert found.cut == len("Action: read\nAction Input: x\n")
    assert scanned("react", "Observation: 7").cut is None
    assert scanned("tags", "<tool_call>{}</tool_call><tool_response>7").cut == 25


def test_long_texts_are_read_in_time() -> None:
    """Linear: a hundred thousand pieces, most of them nearly marks."""
    scanner = scanner_of("tags")
    for _ in range(100_000):
        scanner.feed("<to")
    scanner.end()
    assert scanner.regions == []


BLANK = " " * 50_000
HOSTILE = {
    "react": [
        "Action: " * 6_000,
        f"Action{BLANK}*:x",
        f"Action: a\nAction{BLANK}x",
        "Action: a\nAction Input: " + "\n" * 50_000,
        "\nAction: x" * 5_000,
    ],
    "control_tokens": [
        f"[TOOL_CALLS]a{BLANK}x",
        "[TOOL_CALLS]" * 5_000,
        "<|tool_calls_section_begin|>" + "<|tool_call_begin|>" * 5_000,
        "<｜tool▁calls▁begin｜>" + "<｜tool▁call▁begin｜>" * 5_000,
    ],
    "tags": ["<tool_call>" + "<function=" * 9_000, "<function=a>" + "<parameter=a>" * 9_000],
    "fences": ["x)\n" + "```json " * 9_000, "x)\n" + '```json {"tool":' * 5_000],
    "structured": ["{" * 50_000, "[" * 50_000, "```{" * 9_000],
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in HOSTILE.items() for text in texts]
)
def test_texts_made_to_be_read_over_and_over_cost_no_more(name: str, text: str) -> None:
    """Linear: written once with patterns that go back and forth, each of these took minutes."""
    assert scanned(name, text).settled == len(text)
    CHANNELS[name](ChannelOptions()).past(text)


def test_a_text_that_grows_is_not_tried_as_a_whole_each_time() -> None:
    """Linear: code without a fence, line by line."""
    assert len(calls_in(scanned("fences", *["x = 1\n"] * 4_000))) == 1


@pytest.mark.parametrize("name", HOSTILE)
@given(st.lists(st.sampled_from([text for _, text, _ in CASES] + ["`", "Action", ":", "<", " "]), max_size=4))
def test_a_defused_text_holds_no_call(name: str, pieces: list[str]) -> None:
    """C6, C9: whatever was in it; what was no mark stays as it is."""
    text = "".join(pieces)
    rules = [rule for rule in CHANNELS[name](ChannelOptions()).rules if not rule.at_start]
    harmless = defused(text, rules)
    assert harmless.replace("\u200b", "") == text.replace("\u200b", "")
    assert defused(harmless, rules) == harmless
    scanner = Scanner(rules)
    scanner.feed(harmless)
    scanner.end()
    assert (scanner.regions, scanner.cut) == ([], None)


def test_only_marks_are_defused() -> None:
    """C9: words and JSON in results stay what they are."""
    for name, text in (
        ("react", "Action is taken. {}"),
        ("structured", '{"tool": "a"}'),
        ("fences", "```\nx\n```"),
    ):
        assert defused(text, CHANNELS[name](ChannelOptions()).rules) == text
    assert defused("Action: x", CHANNELS["react"](ChannelOptions()).rules) == "A\u200bction: x"
