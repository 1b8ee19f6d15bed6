"""How the model reads what tools returned."""

from __future__ import annotations

import secrets

from pydantic import SecretStr

from proxy.core.hygiene import Rendering
from proxy.setting_kinds import Count, Part

_OF_THIS_PROCESS = secrets.token_bytes(32)


class ResultSettings(Part):
    """How the model reads what tools returned. Rule data can say more for single tools."""

    truncate: Count = 0
    """Characters of a result that are kept, with a note of what was left out (B5); 0: all."""
    fence: bool = False
    """Results stand between marks that nothing in them can forge, as data and no instructions (C9)."""
    mark_errors: bool = False
    """A failed result that carries no error flag says in its first line that it is one (A11)."""
    secret: SecretStr = SecretStr("")
    """What the marks are made with; the same in all replicas. Empty: a new one at each start, so that results of before a restart are marked anew and the provider's cache of them is lost."""

    @property
    def rendering(self) -> Rendering:
        """The same for the checks."""
        configured = self.secret.get_secret_value().encode()
        return Rendering(self.truncate, self.fence, self.mark_errors, configured or _OF_THIS_PROCESS)
