"""Agents as people build them with official SDKs and frameworks. Of Callgate they know a base URL (F1)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

import anthropic
import openai
from pydantic_ai.exceptions import ModelAPIError

from tests.agents import graphs, loops, openai_runner, pydantic_agents
from tests.agents.shop import Shop

__all__ = ["AGENTS", "Agent", "Shop"]


class Run(Protocol):
    """Works on a task until the model asks for no more tools; gives the final text."""

    def __call__(
        self, url: str, shop: Shop, task: str, *, stream: bool, key: str = ...
    ) -> Awaitable[str]: ...


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: how it is called in reports, what it speaks, and what it raises of its own for an error."""

    name: str
    speaks: str
    run: Run
    raises: type[Exception]
    """What everything that a provider may report as an error is raised as."""

    def status_of(self, error: Exception) -> int | None:
        """The HTTP status that such an exception carries; None where it carries none."""
        status: int | None = getattr(error, "status_code", None)
        return status


AGENTS = (
    Agent("openai", "openai", loops.openai_loop, openai.APIError),
    Agent("anthropic", "anthropic", loops.anthropic_loop, anthropic.APIError),
    Agent("openai-agents", "openai", openai_runner.run, openai.APIError),
    Agent("langgraph-openai", "openai", graphs.run_openai, openai.APIError),
    Agent("langgraph-anthropic", "anthropic", graphs.run_anthropic, anthropic.APIError),
    Agent("pydantic-ai-openai", "openai", pydantic_agents.run_openai, ModelAPIError),
    Agent("pydantic-ai-anthropic", "anthropic", pydantic_agents.run_anthropic, ModelAPIError),
)
