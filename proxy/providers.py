"""Which provider a request goes to: the one that its path named, else the one for its model, else its dialect's own.

A caller's own key never travels to a provider that the model chose: whoever sent it meant another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.errors import ClientFault
from proxy.identity import equipped

if TYPE_CHECKING:
    from proxy.exchange import Incoming
    from proxy.settings import Settings


def placed(incoming: Incoming, settings: Settings) -> Incoming:
    """The request with the key for its provider, as far as that is known before the body is read.

    Raises ClientFault (500) where none is configured. Where the model may choose another provider, `routed` says so.
    """
    waits = not incoming.named and any(
        provider.models for provider in settings.upstream.of_dialect(incoming.dialect.name).values()
    )
    if waits and (incoming.caller.key is not None or incoming.caller.token):
        return incoming
    return replace(incoming, caller=equipped(incoming.caller, incoming.provider, settings))


def routed(incoming: Incoming, model: str, settings: Settings) -> Incoming:
    """The request on its way to the provider of its model.

    Raises ClientFault: 500 where no key for the provider is configured, 401 where there is one that is not for this
    caller.
    """
    name = None if incoming.named else settings.upstream.for_model(incoming.dialect.name, model)
    if name is None:
        return replace(incoming, caller=equipped(incoming.caller, incoming.provider, settings))
    return _to(incoming, name, "Requests for this model go to", settings)


def held_by(incoming: Incoming, name: str, settings: Settings) -> Incoming:
    """The request on its way to the provider that keeps what it asks for (empty: the dialect's own).

    Raises ClientFault: 404 where the path names another provider, else as `routed`.
    """
    if incoming.named == name:
        return incoming
    if incoming.named:
        raise ClientFault(
            "The provider that this path names keeps no such answer.", status=404, code="unknown_answer"
        )
    return _to(incoming, name, "This answer is kept by", settings)


def _to(incoming: Incoming, name: str, why: str, settings: Settings) -> Incoming:
    caller = equipped(incoming.caller, name, settings)
    if caller.credential is None:
        raise ClientFault(
            f"{why} the provider {name} with a key that is for known callers only. Send a key "
            f"that this Callgate was given in identity.api_keys, or one of the provider's to the path /{name}.",
            status=401,
            code="unknown_caller",
        )
    return replace(incoming, named=name, caller=caller)
