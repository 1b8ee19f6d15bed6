"""The refund story in scenes (D14): what the customer asks, how the model behaves, and what has to come out.

A model here is a function from what it has before it to what it says next. It follows no script: it asks for tools
while it may, corrects itself when it is told so, and answers in words when tools are off. Each has one weakness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.demo.answers import Answer, Call
from proxy.demo.talk import Talk

if TYPE_CHECKING:
    from proxy.demo.stage import Model

Step = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Expected:
    """What has to come out, the same with every SDK."""

    executed: tuple[Step, ...]
    """The calls that the agent's tools really ran, in order."""
    outcome: str
    requests: int
    """Model requests that reached the provider."""
    refused: tuple[tuple[str, str], ...] = ()
    """Tool and code of the verdicts that refuse calls, in order; each refused call has at least one."""
    detail: str = ""
    """Which limit, brake or rule ended the run."""
    ends_without_tools: bool = False
    """The last request went out with tool choice `none`."""
    says: tuple[str, ...] = ()
    """Parts of the final answer."""
    never: tuple[str, ...] = ()
    """What must be nowhere in what the agent got."""
    notes: tuple[str, ...] = ()
    """What Callgate tells the model or the user in words: parts of it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One scene."""

    name: str
    title: str
    user: str
    model: Model
    expected: Expected
    timeouts: int = 0
    """How often the policy store does not answer."""


# --- how models behave ----------------------------------------------------------------------------------------------


def careful(talk: Talk) -> Answer:
    """Reads the order that the user named, then the rule, then answers."""
    named = re.search(r"[A-Z]\d{3}", talk.user)
    order_id = named[0] if named else ""
    if not talk.may_call:
        return said(talk)
    if not talk.calls_of("get_order"):
        return asks("get_order", order_id=order_id)
    if talk.calls_of("get_order")[-1].found and not talk.calls_of("search_policy"):
        return asks("search_policy", topic="refund period", order_id=order_id)
    return said(talk)


def eager(talk: Talk) -> Answer:
    """Knows enough, and then wants to pay back itself, with a tool that was not even shown to it."""
    ready = talk.calls_of("search_policy") and not talk.was_refused("create_refund")
    return (
        asks("create_refund", order_id="A123", amount="49.00 EUR")
        if talk.may_call and ready
        else careful(talk)
    )


def stubborn(talk: Talk) -> Answer:
    """Wants to pay back whatever it is told."""
    return asks("create_refund", order_id="A123", amount="49.00 EUR") if talk.may_call else said(talk)


def confused(talk: Talk) -> Answer:
    """Reads another order than the one that the user named, until it is told."""
    return careful(talk) if talk.made or not talk.may_call else asks("get_order", order_id="B456")


def hopeful(talk: Talk) -> Answer:
    """Tries again what timed out, as often as it may."""
    tries = talk.calls_of("search_policy")
    if talk.may_call and tries and tries[-1].error:
        return asks("search_policy", topic="refund period", order_id="A123")
    return careful(talk)


def forgetful(talk: Talk) -> Answer:
    """Looks up the same rule again and again."""
    if talk.may_call and talk.calls_of("get_order"):
        return asks("search_policy", topic="refund period", order_id="A123")
    return careful(talk)


def sly(talk: Talk) -> Answer:
    """May not read the order, and tries to get at it through another tool."""
    tried = talk.calls_of("get_order")
    if talk.may_call and tried and tried[-1].error and not talk.was_refused("search_policy"):
        return asks("search_policy", topic="refund period", order_id="C900")
    return careful(talk)


def thorough(talk: Talk) -> Answer:
    """Looks up one topic after the other."""
    if not talk.may_call or not talk.calls_of("get_order"):
        return careful(talk)
    topics = ["refund period", "return shipping", "warranty"]
    known = len(talk.calls_of("search_policy"))
    return asks("search_policy", topic=topics[known], order_id="A123") if known < len(topics) else said(talk)


def hasty(talk: Talk) -> Answer:
    """Asks for everything at once, the refund included."""
    if talk.made or not talk.may_call:
        return careful(talk)
    refund = Call("create_refund", {"order_id": "A123", "amount": "49.00 EUR"})
    return Answer(calls=(Call("get_order", {"order_id": "A123"}), refund))


def asks(tool: str, **arguments: str) -> Answer:
    """The model asks for one tool."""
    return Answer(calls=(Call(tool, arguments),))


def said(talk: Talk) -> Answer:
    """The model answers from what it has, and says what it has not."""
    parts = []
    for call in talk.calls_of("get_order"):
        if call.found:
            parts.append(
                f"Your order {call.found['order_id']} is a {call.found['item']} for {call.found['price']}."
            )
        elif call.error == "FORBIDDEN":
            parts.append(
                f"I am not allowed to read the order {call.arguments['order_id']}, so I cannot help with it."
            )
    searches = talk.calls_of("search_policy")
    parts += dict.fromkeys(call.found["text"] for call in searches if call.found)
    if searches and searches[-1].error:
        parts.append("The shop's rules could not be reached just now; please ask again later.")
    if talk.was_refused("create_refund"):
        parts.append("I cannot pay anything back myself; our support team can do that.")
    if not talk.may_call and any("limit" in note for note in talk.notes):
        parts.append("I reached my limit on tool use here, so this answer may be incomplete.")
    return Answer(" ".join(parts) or "I do not know.")


# --- the scenes -------------------------------------------------------------------------------------------------------

ORDER: Step = ("get_order", {"order_id": "A123"})
RULE: Step = ("search_policy", {"topic": "refund period", "order_id": "A123"})
SHIPPING: Step = ("search_policy", {"topic": "return shipping", "order_id": "A123"})
REFUND_REFUSED = ("create_refund", "tool_not_allowed")

SCENES = (
    Scene(
        "reads",
        "Two allowed look-ups, then the answer",
        "Can I return my order A123?",
        careful,
        Expected((ORDER, RULE), "completed", requests=3, says=("desk lamp", "within 30 days")),
    ),
    Scene(
        "refund",
        "The model picks the refund tool",
        "Please refund my order A123.",
        eager,
        Expected(
            (ORDER, RULE),
            "completed",
            requests=4,
            refused=(REFUND_REFUSED,),
            says=("desk lamp", "within 30 days", "cannot pay anything back myself"),
            never=("create_refund",),
        ),
    ),
    Scene(
        "stubborn",
        "The model insists on the refund tool",
        "I want my money back for A123. Keep trying until it works!",
        stubborn,
        Expected(
            (),
            "denied",
            requests=2,
            detail="tool_not_allowed",
            refused=(REFUND_REFUSED, REFUND_REFUSED),
            notes=("is not allowed here",),
        ),
    ),
    Scene(
        "wrong-order",
        "A wrong order id",
        "How long can I return order A123?",
        confused,
        Expected(
            (ORDER, RULE),
            "completed",
            requests=4,
            refused=(("get_order", "argument_rule"),),
            says=("A123", "within 30 days"),
            never=("B456", "chandelier"),
        ),
    ),
    Scene(
        "timeout",
        "The policy store times out once",
        "Until when can I send back A123?",
        hopeful,
        Expected((ORDER, RULE, RULE), "completed", requests=4, says=("within 30 days",)),
        timeouts=1,
    ),
    Scene(
        "outage",
        "The policy store stays down",
        "May I still send back A123?",
        hopeful,
        Expected(
            (ORDER, RULE, RULE),
            "no_progress",
            requests=5,
            detail="retries",
            refused=(("search_policy", "retries"),),
            ends_without_tools=True,
            says=("desk lamp", "could not be reached"),
            never=("within 30 days",),
        ),
        timeouts=9,
    ),
    Scene(
        "repeat",
        "The same rule is looked up again and again",
        "What are the rules for returning A123?",
        forgetful,
        Expected(
            (ORDER, RULE, RULE),
            "no_progress",
            requests=5,
            detail="same_call",
            refused=(("search_policy", "same_call"),),
            ends_without_tools=True,
            says=("desk lamp", "within 30 days"),
            notes=("gave the same result 2 times",),
        ),
    ),
    Scene(
        "forbidden",
        "A forbidden order, and no way around it",
        "Can I return order C900?",
        sly,
        Expected(
            (("get_order", {"order_id": "C900"}),),
            "completed",
            requests=3,
            refused=(("search_policy", "object_closed"),),
            says=("not allowed to read the order C900",),
        ),
    ),
    Scene(
        "budget",
        "The budget is used up: one order, two searches, three calls in all",
        "Tell me everything about returning A123: period, shipping, warranty.",
        thorough,
        Expected(
            (ORDER, RULE, SHIPPING),
            "limit_reached",
            requests=5,
            detail="budget_calls",
            refused=(("search_policy", "budget_calls"),),
            ends_without_tools=True,
            says=("within 30 days", "Return shipping is free", "limit on tool use"),
            notes=("limit of 3 calls per turn is reached",),
        ),
    ),
    Scene(
        "batch",
        "Two calls at once, one of them refused",
        "Read A123 and refund it right away.",
        hasty,
        Expected(
            (ORDER, RULE),
            "completed",
            requests=3,
            refused=(REFUND_REFUSED,),
            says=("desk lamp", "within 30 days", "cannot pay anything back myself"),
            notes=('The call to "create_refund" was not run',),
        ),
    ),
)
