"""What `callgate replay` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from proxy.demo.conversations import Played


def print_table(out: Console, played: Sequence[Played]) -> None:
    """The flagged runs, one a row, and the sums."""
    table = Table(
        "run",
        "reward",
        "rounds",
        "altered in round",
        "said by",
        title="Runs that were flagged",
        title_justify="left",
    )
    for each in played:
        if each.is_flagged:
            said = ", ".join(
                f"{check} ({action}) x{count}" for (check, action), count in sorted(each.verdicts.items())
            )
            reward = "" if each.conversation.reward is None else f"{each.conversation.reward:g}"
            rounds = ", ".join(map(str, each.altered)) or "none"
            table.add_row(each.conversation.id, reward, str(each.rounds), rounds, said)
    if table.row_count:
        out.print(table)
    out.print(summary(played), markup=False)


def summary(played: Sequence[Played]) -> str:
    """How many there were, how many were flagged and altered, and of which reward."""
    lines = [f"{len(played)} runs, {sum(each.rounds for each in played)} model requests."]
    for title, among in (
        ("reward 1", [each for each in played if each.conversation.reward == 1]),
        ("other", [each for each in played if each.conversation.reward != 1]),
    ):
        if among:
            flagged = sum(each.is_flagged for each in among)
            altered = sum(bool(each.altered) for each in among)
            lines.append(f"{title}: {len(among)} runs, {flagged} flagged, {altered} altered.")
    return "\n".join(lines)
