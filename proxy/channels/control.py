"""Calls behind tokens that a model was trained to write, where a server hands them on as text: Mistral, Llama, DeepSeek,
Kimi, Granite and Phi."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import UNREADABLE, marked, proposed, written
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .scanner import Proposed

_MISTRAL = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)
_DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?(.*?)(?:<｜tool▁sep｜>|\n)(.*?)(?:<｜tool▁call▁end｜>|\Z)",
    re.DOTALL,
)
_KIMI = re.compile(
    r"<\|tool_call_begin\|>(?:functions\.)?(.*?)(?::\d+)?\s*<\|tool_call_argument_begin\|>(.*?)(?:<\|tool_call_end\|>|\Z)",
    re.DOTALL,
)
_FENCE = re.compile(r"\A\s*```(?:json)?\s*|\s*```\s*\Z")
_STOPS = ("<|eom_id|>", "<|eot_id|>", "<|im_end|>", "</s>")


def _mistral(text: str) -> list[Proposed]:
    calls = proposed(text)
    if calls:
        return calls
    found = _MISTRAL.fullmatch(text)
    return [(found[1], found[2].strip())] if found else [(UNREADABLE, text.strip())]


def _python(text: str) -> list[Proposed]:
    """Llama's tag: a call as JSON, or code for its own interpreter."""
    return proposed(text) or [("python", json.dumps({"code": text.strip()}, ensure_ascii=False))]


def _sections(pattern: re.Pattern[str]) -> Callable[[str], list[Proposed]]:
    def read(text: str) -> list[Proposed]:
        calls = [
            (name.strip(), _FENCE.sub("", arguments).strip()) for name, arguments in pattern.findall(text)
        ]
        return calls or [(UNREADABLE, text.strip())]

    return read


class ControlTokens(PlainChannel):
    """See the file's head."""

    name = "control_tokens"
    rules: Sequence[Rule] = (
        Rule("[TOOL_CALLS]", ("[TOOL_CALLS]", *_STOPS), _mistral, keeps_closer=False),
        Rule("<|python_tag|>", _STOPS, _python),
        Rule("<｜tool▁calls▁begin｜>", ("<｜tool▁calls▁end｜>",), _sections(_DEEPSEEK)),
        Rule("<|tool_calls_section_begin|>", ("<|tool_calls_section_end|>",), _sections(_KIMI)),
        Rule("<|tool_call|>", ("<|/tool_call|>", *_STOPS), marked),
        Rule("[TOOL_RESULTS]"),
        Rule("<|start_header_id|>ipython"),
        Rule("<｜tool▁outputs▁begin｜>"),
    )

    def written(self, calls: Sequence[Proposed]) -> str:
        """As Mistral's models do."""
        return "[TOOL_CALLS][" + ", ".join(written([call]) for call in calls) + "]"
