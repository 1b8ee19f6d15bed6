"""Calls behind tokens that a model was trained to write, where a server hands them on as text: Mistral, Llama, DeepSeek,
Kimi, Granite and Phi."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import marked, proposed, unreadable, written
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from . import ChannelOptions
    from .scanner import Proposed

_MISTRAL = re.compile(r"\s*+([\w.-]++)\s*+(?:\[CALL_ID\][^\[{]*+)?+(?:\[ARGS\])?+\s*+(\{.*)", re.DOTALL)
_DEEPSEEK_NAME = re.compile(r"<｜tool▁sep｜>|\n")
_KIMI_NAME = re.compile(r"(?:functions\.)?([^\s:]++)(?::\d++)?\s*+<\|tool_call_argument_begin\|>")
_STOPS = ("<|eom_id|>", "<|eot_id|>", "<|im_end|>", "</s>")


def _mistral(text: str) -> list[Proposed]:
    calls = proposed(text)
    if calls:
        return calls
    found = _MISTRAL.fullmatch(text)
    return [(found[1], found[2].strip())] if found else unreadable(text)


def _sections(
    begin: str, end: str, read: Callable[[str], Proposed | None], *, begun: bool = False
) -> Callable[[str], list[Proposed]]:
    """Reads all calls between these tokens. `begun`: the first one began before the text. Anything else between them is
    taken by one parser and not by another."""

    def sections(text: str) -> list[Proposed]:
        before, *parts = (begin + text if begun else text).split(begin)
        calls = [read(part.strip().removesuffix(end)) for part in parts]
        found = [call for call in calls if call is not None]
        is_whole = (
            not before.strip() and len(found) == len(parts) and not any(end in args for _, args in found)
        )
        return found if found and is_whole else unreadable(text)

    return sections


def _deepseek(text: str) -> Proposed | None:
    """`function`, name and JSON in a fence; or, since its version 3.1, name and JSON."""
    text = text.removeprefix("function<｜tool▁sep｜>")
    found = _DEEPSEEK_NAME.search(text)
    return (text[: found.start()].strip(), _unfenced(text[found.end() :])) if found else None


def _kimi(text: str) -> Proposed | None:
    found = _KIMI_NAME.match(text)
    return (found[1], text[found.end() :].strip()) if found else None


def _unfenced(text: str) -> str:
    bare = text.strip()
    if not bare.startswith("```"):
        return bare
    return bare.removeprefix("```").removeprefix("json").removesuffix("```").strip()


_DEEPSEEK = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", _deepseek
_KIMI = "<|tool_call_begin|>", "<|tool_call_end|>", _kimi


class ControlTokens(PlainChannel):
    """See the file's head."""

    name = "control_tokens"

    def __init__(self, options: ChannelOptions) -> None:
        """`code_tool` names what code is judged as."""
        super().__init__(options)
        self.rules: Sequence[Rule] = (
            Rule("[TOOL_CALLS]", ("[TOOL_CALLS]", *_STOPS), _mistral, keeps_closer=False),
            Rule("<|python_tag|>", _STOPS, self._python),
            Rule("<｜tool▁calls▁begin｜>", ("<｜tool▁calls▁end｜>",), _sections(*_DEEPSEEK)),
            Rule("<｜tool▁call▁begin｜>", ("<｜tool▁call▁end｜>",), _sections(*_DEEPSEEK, begun=True)),
            Rule("<|tool_calls_section_begin|>", ("<|tool_calls_section_end|>",), _sections(*_KIMI)),
            Rule("<|tool_call_begin|>", ("<|tool_call_end|>",), _sections(*_KIMI, begun=True)),
            Rule("<|tool_call|>", ("<|/tool_call|>", *_STOPS), marked),
            Rule("[TOOL_RESULTS]"),
            Rule("<|start_header_id|>ipython"),
            Rule("<｜tool▁outputs▁begin｜>"),
        )

    def _python(self, text: str) -> list[Proposed]:
        """Llama's tag: a call as JSON, or code for its own interpreter."""
        if text.lstrip()[:1] in {"{", "["}:
            return marked(text)
        return [(self.options.code_tool, json.dumps({"code": text.strip()}, ensure_ascii=False))]

    def written(self, calls: Sequence[Proposed]) -> str:
        """As Mistral's models do."""
        return "[TOOL_CALLS][" + ", ".join(written([call]) for call in calls) + "]"
