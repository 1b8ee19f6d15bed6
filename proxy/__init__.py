"""Callgate: a policy sidecar and guard proxy between an agent and its LLM provider."""

__version__ = "0.1.0"
