"""Check `evidence`: what a final answer cites was read in this run, or said to it (E15).

| check | code | says |
|---|---|---|
| `evidence.<layer>.<rule>` | `evidence_missing` | the answer names something that no result and nobody has shown |

Which ids a text cites is policy (`answers` in the rule data). The verdict is REASK: where answers are held the model is
asked again; else the text has left and the verdict is a flag. What cannot be known (a result that was cut) is no verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.evidence import unsupported
from proxy.core.results import summary
from proxy.core.verdicts import Action, Mode, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.verdicts import Cited, Facts

MOST_NAMED = 5
VALUE_LENGTH = 60


class EvidenceCheck:
    """Unsupported citations as verdicts."""

    name = "evidence"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say before there is an answer."""
        yield from ()

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say: where arguments come from is policy's."""
        yield from ()

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:
        """What the final answer cites without having it from anywhere."""
        for cited in facts.decision.cited:
            missing = unsupported(cited, facts.run, facts.request)
            if missing:
                yield _verdict(cited, missing)


def _verdict(cited: Cited, missing: tuple[str, ...]) -> Verdict:
    named = ", ".join(summary(value, VALUE_LENGTH) for value in missing[:MOST_NAMED])
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    usual = (
        f"Nothing in this conversation shows {named}{more}. Name only what a result or the user has named."
    )
    return Verdict(
        check=".".join(
            part for part in ("evidence", cited.layer, cited.rule.removeprefix("answers.")) if part
        ),
        code="evidence_missing",
        action=Action.REASK,
        message=cited.message or usual,
        reason_class="evidence",
        layer=cited.layer,
        rule=cited.rule,
        mode=Mode.SHADOW if cited.shadow else Mode.ENFORCE,
        fields={"missing": named},
    )
