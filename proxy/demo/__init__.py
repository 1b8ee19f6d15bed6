"""Only here: a provider is played. What the demo, the tests and the benchmark talk to instead of a model."""

from proxy.demo.answers import Answer, Call, Complaint, Raw
from proxy.demo.provider import ScriptedProvider, Seen

__all__ = ["Answer", "Call", "Complaint", "Raw", "ScriptedProvider", "Seen"]
