"""What `callgate replay` prints."""

from __future__ import annotations

import io
from collections import Counter

from rich.console import Console

from proxy.demo.conversation_table import print_table, summary
from proxy.demo.conversations import Conversation, Played

GOOD = Played(Conversation("good", [], 1.0), rounds=4)
BAD = Played(Conversation("bad", [], 0.0), 9, [7], Counter({("progress.nudge", "nudge"): 2}))


def test_only_flagged_runs_have_a_row_and_all_are_counted() -> None:
    """The table is short where there is nothing to say."""
    out = Console(width=120, file=io.StringIO(), record=True)

    print_table(out, [GOOD, BAD])
    text = out.export_text()

    assert "progress.nudge (nudge) x2" in text
    assert "good" not in text
    assert "reward 1: 1 runs, 0 flagged, 0 altered." in text
    assert "other: 1 runs, 1 flagged, 1 altered." in text


def test_nothing_flagged_is_said_in_words_alone() -> None:
    """No empty table."""
    assert summary([GOOD]) == "1 runs, 4 model requests.\nreward 1: 1 runs, 0 flagged, 0 altered."
