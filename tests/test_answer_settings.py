"""What happens to answers that are objected to, as an operator writes it."""

from __future__ import annotations

from proxy.answer_settings import AnswerSettings


def test_text_leaves_at_once_where_nothing_is_said() -> None:
    """E15: a flag is the default, since text has left."""
    assert (AnswerSettings().hold, AnswerSettings().reask, AnswerSettings().after) == (False, 1, "flag")
