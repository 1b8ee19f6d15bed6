"""How calls that need a person are handled; which calls those are is policy."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import SecretStr, model_validator

from proxy.setting_kinds import Part, Positive, Seconds


class WebhookSettings(Part):
    """Who is told of a call that waits for a person."""

    url: str = ""
    """Where each new request for approval is sent (POST, JSON, signed); empty: nowhere."""
    secret: SecretStr = SecretStr("")
    """What the signature is made with; needed with a URL."""
    timeout_seconds: Seconds = 5
    """The longest a try may take."""
    attempts: Positive = 3
    """Tries for each request."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("url: should begin with https:// or http://")
        if self.url and not self.secret.get_secret_value():
            raise ValueError("secret: is needed with a URL: the receiver could not tell who asks")
        return self


class ApprovalSettings(Part):
    """Calls that need a person."""

    when_needed: Literal["hold", "pending"] = "pending"
    """`hold`: the answer waits for the decision; `pending`: the call is refused at once, and passes once it is approved and made again."""
    hold_seconds: Seconds = 60
    """With `hold`, the longest that an answer waits; then the call is refused as pending. Clients, gateways and `upstream.idle_seconds` have to allow as much."""
    timeout_seconds: Seconds = 3600
    """What nobody decides for so long is refused."""
    use_seconds: Seconds = 3600
    """What was approved has to be made within this time."""
    max_waiting: Positive = 1000
    """Calls that may wait undecided; further ones are refused."""
    max_waiting_per_caller: Positive = 50
    """The same of one caller."""
    webhook: WebhookSettings = WebhookSettings()
    """Who is told."""
