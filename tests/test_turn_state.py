"""Where one turn stands."""

from proxy.core.messages import RequestEdit, Turn, Usage
from tests.staged import Stage


async def test_nothing_changed_is_the_agents_own_body() -> None:
    """Promise 1: not a copy that looks alike."""
    stage = await Stage().opens(stream=False)
    assert stage.state.body is stage.state.incoming.body
    stage.state.edit = RequestEdit(note="Stop now.")
    assert b"Stop now." in stage.state.body


async def test_answers_that_were_abandoned_count_and_are_shown() -> None:
    stage = await Stage().opens(stream=False)
    stage.state.earlier += [
        Turn("a", text="One.", usage=Usage(1, 2)),
        Turn("b"),
        Turn("c", text="Two.", usage=Usage(3, 4)),
    ]
    assert stage.state.earlier_text == "One.\n\nTwo."
    assert stage.state.earlier_usage == Usage(4, 6)


async def test_a_stream_is_known_by_its_first_answer() -> None:
    """What the agent saw first stays its id, whatever answered in the end."""
    for stream, shown in ((True, "first"), (False, "second")):
        stage = await Stage().opens(stream=stream)
        stage.state.earlier.append(Turn("first"))
        assert stage.state.shown_as(Turn("second")) == shown
