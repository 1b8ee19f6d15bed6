"""Text channels: which agents write calls in text, and in which form."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, field_validator

from proxy.channels import CHANNELS, Channel, ChannelOptions
from proxy.setting_kinds import Part


class ChannelSettings(Part):
    """One form of calls in text, for some agents."""

    name: str
    """`tags`, `control_tokens`, `react`, `fences`, `patches` or `structured`."""
    agents: tuple[str, ...] = ("*",)
    """Agents of which this holds, by name; `*` stands for anything. An agent without a name is ``."""
    tools: tuple[str, ...] = ()
    """Tools that may be called so where the request itself offers none; empty: any, as far as policy goes. In `react` a
    name with a space is one only if it is listed."""
    defuse: bool = False
    """Marks of the channel inside results of tools are broken, so that no result reads as a call."""
    code_tool: Annotated[str, Field(min_length=1)] = "python"
    """`fences`: the name under which code is judged, with the argument `code`."""
    name_field: str = ""
    """`structured`: the member that names the tool; empty: the usual ones."""
    arguments_field: str = ""
    """`structured`: the member with the arguments; empty: the usual ones."""
    final: str = ""
    """`structured`: the tool name with which the agent's loop ends; answers by program are written so. Empty: they are plain text."""

    @field_validator("name")
    @classmethod
    def _is_channel(cls, name: str) -> str:
        if name not in CHANNELS:
            raise ValueError(f"there is no channel {name}; there are {', '.join(CHANNELS)}")
        return name

    def holds_for(self, agent: str) -> bool:
        """Whether this agent writes calls so."""
        return any(fnmatchcase(agent, pattern) for pattern in self.agents)

    def channel(self) -> Channel:
        """The channel itself."""
        names = self.name_field, self.arguments_field, self.final
        options = ChannelOptions(self.code_tool, *names, tools=self.tools)
        return CHANNELS[self.name](options)
