"""Calls between tags: Hermes and Qwen (`<tool_call>{…}</tool_call>`), Qwen-coder and Llama (`<function=name>…`), and the
XML of older Claude models (`<invoke name="…">`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import marked, unreadable, written, xml_call
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scanner import Proposed

_RESPONSE = re.compile(r"<tool_response>(.*?)(?:</tool_response>|\Z)", re.DOTALL)


def _in_tag(text: str) -> list[Proposed]:
    """What a `<tool_call>` holds: JSON, or functions as elements."""
    before, *functions = text.split("<function=")
    if not functions:
        return marked(text)
    parts = [function.rstrip().removesuffix("</function>") for function in functions]
    if before.strip() or any("</function>" in part for part in parts):
        return unreadable(text)
    return [call for part in parts for call in xml_call(part)]


class Tags(PlainChannel):
    """See the file's head."""

    name = "tags"
    rules: Sequence[Rule] = (
        Rule("<tool_call>", ("</tool_call>",), _in_tag),
        Rule("<function=", ("</function>",), xml_call),
        Rule("<invoke name=", ("</invoke>",), xml_call),
        Rule("<tool_response>"),
        Rule("<function_results>"),
    )

    def written(self, calls: Sequence[Proposed]) -> str:
        """Each in a tag of its own."""
        return "\n".join(f"<tool_call>\n{written([call])}\n</tool_call>" for call in calls)

    def refusal(self, refusals: Sequence[tuple[str, str]]) -> str:
        """In the tags of results."""
        return "\n".join(f"<tool_response>\n{said}\n</tool_response>" for _, said in refusals)

    def results(self, text: str) -> list[str]:
        """What stands between the tags of results."""
        return [found.strip() for found in _RESPONSE.findall(text)]
