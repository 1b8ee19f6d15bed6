"""Which run is this, and what has it spent? Runs are told apart by evidence; no way of sending a history escapes."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.core.limits import Amounts, Bounds, Limits, Reservation, Shortage
from proxy.core.messages import Usage
from proxy.core.results import StatusRule, StepStatus, ToolTraits
from proxy.core.runs import KEPT, Identity, KeptAnswer, Outcome, Run, RunChange
from proxy.core.spending import CHARACTERS_A_TOKEN, DEFAULT_OUTPUT_TOKENS
from proxy.errors import StoreFault
from proxy.ledger import Ledger
from proxy.stores.memory import MemoryStore
from tests.talk import ALICE, BOB, NOW, Agent, Clock, brought, call, request, said, user

A, B = '{"key":"A"}', '{"key":"B"}'


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(1000, 3600.0, clock)


@pytest.fixture
def ledger(store: MemoryStore, clock: Clock) -> Ledger:
    return Ledger(store, clock)


def kept(store: MemoryStore) -> list[Run]:
    return [store._runs[name] for name in store._runs]


# ---- runs are told apart ----


async def test_two_hundred_runs_with_the_same_prompt_never_mix(ledger: Ledger, store: MemoryStore) -> None:
    """Ids of the provider are unique; nothing else tells these agents apart."""
    agents = [Agent(ledger) for _ in range(200)]
    order = random.Random(7)
    for turn in range(2):
        order.shuffle(agents)
        for agent in agents:
            await agent.asks()
            await agent.hears(call(f"call_{id(agent)}_{turn}"))
        for agent in agents:
            agent.runs_tools((f"call_{id(agent)}_{turn}", "A=12"))

    assert all(len(set(agent.runs)) == 1 for agent in agents)
    assert len({agent.run.id for agent in agents}) == 200
    assert {run.spent.calls for run in kept(store)} == {2}


async def test_runs_with_the_same_prompt_are_told_apart_by_what_was_answered(
    ledger: Ledger, store: MemoryStore
) -> None:
    """More of them than a key points to: prompt and answer together are a key of their own."""
    agents = [Agent(ledger) for _ in range(200)]
    for number, agent in enumerate(agents):
        await agent.asks()
        await agent.ends(f"The answer is {number}.")
    for agent in agents:
        agent.says("And then?")
        opened = await agent.asks()
        assert not opened.is_new
        assert opened.run.turn == 2

    assert all(len(set(agent.runs)) == 1 for agent in agents)
    assert len(kept(store)) == 200


async def test_an_id_that_comes_again_with_other_arguments_is_another_call(ledger: Ledger) -> None:
    """C006, E1: the provider numbers from zero in every turn."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("lookup:0", A))
    agent.runs_tools(("lookup:0", "A=12"))
    await agent.asks()
    await agent.hears(call("lookup:0", B))
    agent.runs_tools(("lookup:0", "B=15"))
    opened = await agent.asks()

    assert len(set(agent.runs)) == 1
    assert [(step.arguments, step.result) for step in opened.run.steps] == [(A, "A=12"), (B, "B=15")]
    assert opened.run.spent.calls == 2
    assert [step.result for step in opened.results] == ["B=15"]


async def test_agents_with_equal_ids_and_different_arguments_never_mix(ledger: Ledger) -> None:
    """C006"""
    agents = [Agent(ledger, user(f"Tariff {number}?")) for number in range(30)]
    for turn in range(3):
        for number, agent in enumerate(agents):
            await agent.asks()
            await agent.hears(call("lookup:0", f'{{"key":{number},"page":{turn}}}'))
            agent.runs_tools(("lookup:0", f"{number}/{turn}"))
    for number, agent in enumerate(agents):
        opened = await agent.asks()
        assert [step.result for step in opened.run.steps] == [f"{number}/{turn}" for turn in range(3)]

    assert all(len(set(agent.runs)) == 1 for agent in agents)


async def test_what_cannot_be_told_apart_is_counted_right_in_sum(ledger: Ledger, store: MemoryStore) -> None:
    """C006: the same ids, prompt and arguments. Each result finds an open call; none is lost, none counts twice."""
    agents = [Agent(ledger) for _ in range(20)]
    for turn in range(3):
        for agent in agents:
            await agent.asks()
            await agent.hears(call("lookup:0"))
        for number, agent in enumerate(agents):
            agent.runs_tools(("lookup:0", f"A={number if turn else 0}"))
    for agent in agents:
        await agent.asks()

    runs = kept(store)
    steps = [step for run in runs for step in run.steps]
    assert len(runs) == 20
    assert len(steps) == sum(run.spent.calls for run in runs) == 60
    assert sum(run.spent.rounds for run in runs) == 80
    assert all(step.status is StepStatus.FOUND for step in steps)


async def test_a_run_header_tells_apart_what_nothing_else_does(ledger: Ledger) -> None:
    """Also after the result has come, for a retry of the follow-up."""
    agents = [Agent(ledger, run_header=f"task-{number}") for number in range(5)]
    for agent in agents:
        await agent.asks()
        await agent.hears(call("lookup:0"))
        agent.runs_tools(("lookup:0", "A=12"))
    for agent in agents:
        await agent.asks()
        await agent.asks(is_retry=True)

    assert all(len(set(agent.runs)) == 1 for agent in agents)
    assert len({agent.run.id for agent in agents}) == 5


async def test_identities_never_share_a_run(ledger: Ledger) -> None:
    for identity in (ALICE, BOB):
        agent = Agent(ledger, identity=identity, run_header="task-1")
        await agent.asks()
        await agent.hears(call("call_1"))
        agent.runs_tools(("call_1", "A=12"))
        await agent.asks()
        await agent.ends("A is 12.")
    stranger = Agent(ledger, *agent.history[:-1], identity=Identity("key:eve"), run_header="task-1")
    opened = await stranger.asks(is_retry=True)

    assert opened.is_new
    assert opened.run.identity_key == "key:eve"


async def test_no_choice_of_names_reaches_into_another_identity(ledger: Ledger) -> None:
    """A run header can hold what looks like the rest of another caller's name."""
    first = Agent(ledger, identity=Identity("key:ci"), run_header="bot:1")
    second = Agent(ledger, identity=Identity("key:ci:bot"), run_header="1")
    await first.asks()
    await second.asks()

    assert first.run.id != second.run.id


async def test_first_requests_with_one_run_header_are_one_run(ledger: Ledger) -> None:
    """Sub-agents and side questions of a task count together; a running turn is not reset by them."""
    main = Agent(ledger, user("Do it."), run_header="task-1")
    await main.asks()
    await main.hears(call("call_1"))
    side = Agent(ledger, user("A title for this?"), run_header="task-1")
    await side.asks()

    assert side.run.id == main.run.id
    assert (side.run.turn, side.run.turn_spent.rounds, side.run.turn_spent.calls) == (1, 2, 1)


async def test_a_run_header_is_no_way_out(ledger: Ledger) -> None:
    """Evidence beats headers: another header in the middle of a run changes nothing."""
    agent = Agent(ledger, run_header="task-1")
    await agent.asks()
    await agent.hears(call("call_1"))
    agent.runs_tools(("call_1", "A=12"))
    agent.labels = {"run_header": "task-2"}
    opened = await agent.asks()

    assert not opened.is_new
    assert opened.run.spent.calls == 1


async def test_a_history_without_any_evidence_stays_in_the_run_that_its_header_names(ledger: Ledger) -> None:
    """Compaction may take every call out; what the run has spent is not forgotten."""
    agent = Agent(ledger, run_header="task-1")
    await agent.asks()
    await agent.hears(call("call_1"))
    agent.history = [user("So far: A is 12."), said("I see."), user("Go on.")]
    opened = await agent.asks()

    assert not opened.is_new
    assert (opened.run.spent.calls, opened.run.turn) == (1, 1)


async def test_a_retry_of_a_first_request_stays_in_its_run(ledger: Ledger, store: MemoryStore) -> None:
    """E2: it counts as a round of the same run."""
    agent = Agent(ledger)
    await agent.asks()
    again = await agent.asks(is_retry=True)

    assert len(set(agent.runs)) == 1
    assert not again.is_new
    assert agent.run.spent.rounds == 2
    assert len(kept(store)) == 1


async def test_a_first_request_that_comes_again_without_saying_so_is_a_new_run(ledger: Ledger) -> None:
    agent = Agent(ledger)
    await agent.asks()
    await agent.asks()

    assert len(set(agent.runs)) == 2


async def test_the_provider_keeps_the_history_and_results_alone_lead_back(ledger: Ledger) -> None:
    """A request may bring nothing but results: what they answer is evidence."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"), call("call_2", B))
    agent.history = [brought(("call_1", "A=12")), brought(("call_2", "B=15"))]
    opened = await agent.asks()

    assert not opened.is_new
    assert [step.result for step in opened.run.steps] == ["A=12", "B=15"]
    assert opened.run.spent.calls == 2


# ---- what a history adds ----


async def test_a_new_message_of_the_user_opens_a_turn(ledger: Ledger, clock: Clock) -> None:
    """Counts of the turn start afresh, those of the run go on."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"))
    agent.runs_tools(("call_1", "A=12"))
    await agent.asks()
    await agent.ends("A is 12.")
    agent.says("And B?")
    clock.now += 60
    opened = await agent.asks()

    assert (opened.run.turn, opened.run.turn_started_at) == (2, clock.now)
    assert opened.run.turn_spent == Amounts()
    assert (opened.run.spent.rounds, opened.run.spent.calls) == (2, 1)
    assert opened.run.turn_steps == ()
    assert opened.run.outcome is Outcome.RUNNING


async def test_text_that_comes_with_results_opens_no_turn(ledger: Ledger) -> None:
    """Many agents put reminders beside the results."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"))
    reminder = replace(user("Remember to be brief."), results=brought(("call_1", "A=12")).results)
    agent.history.append(reminder)
    opened = await agent.asks()

    assert opened.run.turn == 1
    assert opened.run.turn_spent.calls == 1


async def test_the_same_history_read_twice_adds_nothing(ledger: Ledger) -> None:
    """E2: an HTTP retry is a round more and nothing else."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"), call("call_2"))
    agent.runs_tools(("call_1", "A=12"), ("call_2", "A=12"))
    first = await agent.asks()
    again = await agent.asks(is_retry=True)

    assert len(first.results) == 2
    assert again.results == ()
    assert again.run.steps == first.run.steps
    assert (again.run.spent.calls, again.run.turn) == (2, 1)


async def test_a_late_retry_of_an_early_request_makes_nothing_look_new(ledger: Ledger) -> None:
    """What was read once is not counted again, and no turn is opened again, when the longer history goes on."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("lookup:0", A))
    agent.runs_tools(("lookup:0", "A=12"))
    await agent.asks()
    await agent.ends("A is 12.")
    agent.says("And B?")
    await agent.asks()
    await agent.hears(call("lookup:0", B))
    whole, agent.history = agent.history, agent.history[:1]
    await agent.asks(is_retry=True)
    agent.history = [*whole, brought(("lookup:0", "B=15"))]
    opened = await agent.asks()

    assert len(set(agent.runs)) == 1
    assert [step.result for step in opened.run.steps] == ["A=12", "B=15"]
    assert (opened.run.spent.calls, opened.run.turn, opened.run.turn_spent.calls) == (2, 2, 1)


async def test_branches_of_one_run_share_its_books(ledger: Ledger, store: MemoryStore) -> None:
    """Parallel requests of one run: both branches hold the first call, each has one of its own."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"))
    agent.runs_tools(("call_1", "A=12"))
    left, right = Agent(ledger, *agent.history), Agent(ledger, *agent.history)
    for name, branch in (("left", left), ("right", right)):
        await branch.asks()
        await branch.hears(call(f"call_{name}", B))
    for name, branch in (("left", left), ("right", right), ("left", left)):
        if len(branch.history) == 4:
            branch.runs_tools((f"call_{name}", name))
        opened = await branch.asks()

    assert len(kept(store)) == 1
    assert [step.call_id for step in opened.run.steps] == ["call_1", "call_left", "call_right"]
    assert [step.result for step in opened.run.steps] == ["A=12", "left", "right"]
    assert (opened.run.spent.calls, opened.run.turn) == (3, 1)


async def test_a_result_that_comes_late_or_twice_is_taken_once(ledger: Ledger) -> None:
    """E1, E6"""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"), call("call_2", B))
    agent.runs_tools(("call_1", "A=12"))
    first = await agent.asks()
    await agent.hears(call("call_3"))
    agent.runs_tools(("call_3", "A=13"), ("call_2", "B=15"), ("call_1", "A=99"))
    second = await agent.asks()
    agent.runs_tools(("call_2", "B=99"))
    third = await agent.asks()

    assert [step.call_id for step in first.results] == ["call_1"]
    assert sorted(step.call_id for step in second.results) == ["call_2", "call_3"]
    assert third.results == ()
    assert [step.result for step in third.run.steps] == ["A=12", "B=15", "A=13"]


async def test_a_rewritten_history_stays_in_its_run(ledger: Ledger) -> None:
    """Compaction keeps the newest calls: they lead back, and no limit starts afresh."""
    agent = Agent(ledger)
    for number in range(5):
        await agent.asks()
        await agent.hears(call(f"call_{number}", f'{{"page":{number}}}'))
        agent.runs_tools((f"call_{number}", f"page {number}"))
    before = agent.run
    agent.history = [user("Summary: four pages were read."), *agent.history[-2:]]
    opened = await agent.asks()
    await agent.hears(call("call_5"))
    agent.runs_tools(("call_5", "page 5"))
    after = await agent.asks()

    assert not opened.is_new
    assert [step.result for step in opened.run.steps] == [f"page {number}" for number in range(5)]
    assert (opened.run.turn, opened.run.spent.calls, opened.run.started_at) == (1, 5, before.started_at)
    assert (after.run.turn, after.run.spent.calls, after.run.turn_spent.calls) == (1, 6, 6)


async def test_a_rewritten_history_with_a_new_question_opens_a_turn(ledger: Ledger) -> None:
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"))
    agent.runs_tools(("call_1", "A=12"))
    await agent.asks()
    await agent.ends("A is 12.")
    agent.history = [user("Summary."), *agent.history[1:], user("And B?")]
    opened = await agent.asks()

    assert not opened.is_new
    assert (opened.run.turn, opened.run.turn_spent.calls, opened.run.spent.calls) == (2, 0, 1)


async def test_after_compaction_the_newest_equal_call_gets_the_result(ledger: Ledger) -> None:
    """C006: ids from zero and equal arguments; only the last of three calls is still in the history."""
    agent = Agent(ledger)
    for number in range(3):
        await agent.asks()
        await agent.hears(call("lookup:0"))
        agent.runs_tools(("lookup:0", f"at {number}"))
    agent.history = [user("Summary."), *agent.history[-2:]]
    opened = await agent.asks()

    assert [step.result for step in opened.run.steps] == ["at 0", "at 1", "at 2"]
    assert opened.run.spent.calls == 3


async def test_a_call_that_came_back_altered_counts_once(ledger: Ledger) -> None:
    """A2: the agent fills in a default. That it is altered is for the history check to say."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1", A))
    agent.history[-1] = said("", call("call_1", '{"key":"A","limit":10}'))
    agent.runs_tools(("call_1", "A=12"))
    opened = await agent.asks()

    assert not opened.is_new
    assert [step.result for step in opened.run.steps] == ["A=12"]
    assert opened.run.spent.calls == 1


async def test_refused_calls_are_remembered_and_never_lead_back(ledger: Ledger) -> None:
    """D5: recorded with the code of the refusal; the agent has never seen its id."""
    agent = Agent(ledger)
    await agent.asks()
    run = await ledger.record_calls(agent.run, [call("call_1"), call("call_2", B)], {1: "tool_not_allowed"})
    stranger = Agent(ledger, user("?"), said("", call("call_2", B)), brought(("call_2", "B=15")))
    opened = await stranger.asks()

    assert [(step.status, step.refused_as) for step in run.steps] == [
        (StepStatus.PENDING, ""),
        (StepStatus.REFUSED, "tool_not_allowed"),
    ]
    assert opened.is_new


# ---- lost state ----


async def test_a_run_whose_state_was_lost_is_rebuilt_from_its_own_history(ledger: Ledger) -> None:
    """Calls, rounds and turns are all in the history; that more is unknown is said."""
    agent = Agent(
        ledger,
        user(),
        said("", call("c1"), call("c2", B)),
        brought(("c1", "A=12"), ("c2", '{"error":"FORBIDDEN"}')),
        said("A is 12."),
        user("And C?"),
        said("", call("c3", '{"key":"C"}', "search")),
        brought(("c3", "")),
    )
    opened = await agent.asks()
    run = opened.run

    assert opened.is_new
    assert run.state_lost
    assert (run.turn, run.spent.rounds, run.turn_spent.rounds) == (2, 3, 1)
    assert (run.spent.calls, dict(run.spent.per_tool)) == (3, {"lookup": 2, "search": 1})
    assert (run.turn_spent.calls, dict(run.turn_spent.per_tool)) == (1, {"search": 1})
    assert [(step.number, step.turn, step.seen_only) for step in run.steps] == [
        (1, 1, True),
        (2, 1, True),
        (3, 2, True),
    ]
    assert run.steps[1].status is StepStatus.FORBIDDEN
    assert len(opened.results) == 3


async def test_a_rebuilt_run_goes_on_as_any_other(ledger: Ledger) -> None:
    agent = Agent(ledger, user(), said("", call("c1")), brought(("c1", "A=12")))
    await agent.asks()
    await agent.hears(call("c2", B))
    agent.runs_tools(("c2", "B=15"))
    opened = await agent.asks()

    assert not opened.is_new
    assert [(step.number, step.result, step.seen_only) for step in opened.run.steps] == [
        (1, "A=12", True),
        (2, "B=15", False),
    ]
    assert (agent.run.spent.calls, agent.run.spent.rounds) == (2, 3)


async def test_assistant_messages_in_a_row_are_one_round(ledger: Ledger) -> None:
    """Some dialects have a message a call: an answer of three messages was one model request."""
    agent = Agent(
        ledger,
        user(),
        said("I look both up."),
        said("", call("c1")),
        said("", call("c2", B)),
        brought(("c1", "A=12")),
        brought(("c2", "B=15")),
    )
    opened = await agent.asks()

    assert opened.run.spent.rounds == 1
    assert opened.run.spent.calls == 2


async def test_an_answer_in_several_messages_leads_back_to_its_request(ledger: Ledger) -> None:
    agent = Agent(ledger)
    await agent.asks()
    await agent.ends("First this. Then that.")
    agent.history[1:] = [said("First this."), said("Then that."), user("And now?")]
    opened = await agent.asks()

    assert not opened.is_new
    assert opened.run.turn == 2


async def test_steps_that_came_with_a_history_are_reported_with_their_numbers(ledger: Ledger) -> None:
    """A9: a call that the run did not know (an agent's own example) becomes a step as numbered as any other."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("call_1"))
    agent.runs_tools(("call_1", "A=12"))
    agent.history += [said("", call("made_up", B)), brought(("made_up", "B=15"))]
    opened = await agent.asks()

    assert [step.number for step in opened.results] == [1, 2]
    assert opened.run.spent.calls == 2


# ---- what policy declares about tools ----


async def test_declared_traits_reread_the_steps(ledger: Ledger) -> None:
    """A5, D9: policy says what a text means and which arguments say nothing; steps so far follow."""
    agent = Agent(ledger)
    await agent.asks()
    await agent.hears(call("c1", '{"key":"A","at":1}'), call("c2", '{"key":"A","at":2}'))
    agent.runs_tools(("c1", "Sorry."), ("c2", "A=12"))
    opened = await agent.asks()
    assert len({step.fingerprint for step in opened.run.steps}) == 2

    sorry = StatusRule("sorry", StepStatus.NOT_FOUND)
    traits = {"lookup": ToolTraits(volatile_arguments=("at",), status_rules=(sorry,))}
    run = await ledger.declare(opened.run, request(*agent.history), traits)

    assert len({step.fingerprint for step in run.steps}) == 1
    assert [step.status for step in run.steps] == [StepStatus.NOT_FOUND, StepStatus.FOUND]
    assert [step.number for step in run.steps] == [1, 2]
    assert run.spent == agent.run.spent
    assert await ledger.declare(run, request(*agent.history), dict(traits)) is run


async def test_declaring_forgets_no_result_that_left_the_history(ledger: Ledger) -> None:
    """Compaction took the first call out and cleared the second one's result; both stay as they were read."""
    agent = Agent(ledger)
    for number in range(3):
        await agent.asks()
        await agent.hears(call(f"c{number}", f'{{"page":{number},"at":{number}}}'))
        agent.runs_tools((f"c{number}", f"page {number}"))
    agent.history = [user("Summary."), agent.history[3], *agent.history[-2:]]
    opened = await agent.asks()
    run = await ledger.declare(
        opened.run, request(*agent.history), {"lookup": ToolTraits(volatile_arguments=("at", "page"))}
    )

    assert [step.status for step in run.steps] == [StepStatus.FOUND] * 3
    assert [step.result for step in run.steps] == ["page 0", "page 1", "page 2"]
    assert len({step.fingerprint for step in run.steps}) == 1


# ---- the books ----


async def opened_run(ledger: Ledger) -> Run:
    return (await ledger.open(ALICE, request(user()))).run


async def test_a_round_is_paid_with_what_the_provider_said(ledger: Ledger) -> None:
    """E2, E4: put aside before, settled after."""
    run = await opened_run(ledger)
    run, reserved = await ledger.reserve_round(run, request(user()), Limits())
    assert isinstance(reserved, Reservation)
    assert run.spent == Amounts(rounds=1, input_tokens=400 // CHARACTERS_A_TOKEN + 1, output_tokens=100)

    run = await ledger.settle_round(reserved, Usage(80, 20))

    assert run.spent == run.turn_spent == Amounts(rounds=1, input_tokens=80, output_tokens=20)


@pytest.mark.parametrize(
    ("usage", "streamed", "ended", "spent"),
    [
        (None, 0, True, Amounts(1, 0, 101, 1, {}, 102)),
        (None, 120, False, Amounts(1, 0, 101, 31, {}, 132)),
        (None, 1_000_000, False, Amounts(1, 0, 101, 100, {}, 201)),
        (Usage(300, 1), 120, False, Amounts(1, 0, 300, 31, {}, 31)),
        (Usage(300, 90), 120, False, Amounts(1, 0, 300, 90, {}, 90)),
        (Usage(0, 5), 0, False, Amounts(1, 0, 101, 5, {}, 106)),
        (Usage(300, 1), 120, True, Amounts(1, 0, 300, 1)),
        (Usage(-500, -500), 0, True, Amounts(1)),
        (Usage(-500, -500), 40, False, Amounts(1, 0, 101, 11, {}, 112)),
    ],
)
async def test_usage_that_never_came_is_estimated_and_never_zero(
    ledger: Ledger, usage: Usage | None, streamed: int, ended: bool, spent: Amounts
) -> None:
    """E4, E13, C018: at least the input and what streamed, at most what was put aside, marked as unverified. A figure
    below zero, whoever sent it, gives nothing back."""
    run = await opened_run(ledger)
    _, reserved = await ledger.reserve_round(run, request(user()), Limits())
    assert isinstance(reserved, Reservation)

    run = await ledger.settle_round(reserved, usage, text_bytes=streamed, ended=ended)

    assert run.spent == spent


async def test_what_never_left_costs_nothing_and_what_was_refused_costs_a_round(ledger: Ledger) -> None:
    """C013, E2: failures count as rounds, and give back every token."""
    run = await opened_run(ledger)
    run, first = await ledger.reserve_round(run, request(user()), Limits())
    run, second = await ledger.reserve_round(run, request(user()), Limits())
    assert isinstance(first, Reservation)
    assert isinstance(second, Reservation)

    run = await ledger.settle_round(first, None, sent=False)
    run = await ledger.settle_round(second, None, cost_nothing=True)

    assert run.spent == Amounts(rounds=1)


async def test_output_is_put_aside_for_every_choice(ledger: Ledger) -> None:
    """E4: the maximum holds for each of n choices; without one, and below zero, there is a figure of our own."""
    sizes = []
    for asked in ({"max_output": 100, "choices": 4}, {"max_output": None}, {"max_output": -7}):
        run = await opened_run(ledger)
        _, reserved = await ledger.reserve_round(run, request(user(), **asked), Limits())
        assert isinstance(reserved, Reservation)
        sizes.append(reserved.amounts.output_tokens)

    assert sizes == [400, DEFAULT_OUTPUT_TOKENS, 0]


async def test_of_five_calls_the_first_ones_that_fit_are_reserved(ledger: Ledger) -> None:
    """C014, C10, D12: in the order of the answer, and the counts never pass their limits."""
    run = await opened_run(ledger)
    limits = Limits(run=Bounds(calls=10, per_tool={"send": 4}))
    before = [call(f"b{number}", name="send" if number < 2 else "look") for number in range(8)]
    run, _ = await ledger.reserve_calls(run, before, limits)

    calls = [call(f"c{number}", f'{{"to":{number}}}', "send") for number in range(5)]
    run, answers = await ledger.reserve_calls(run, calls, limits)

    assert [isinstance(answer, Reservation) for answer in answers] == [True, True, False, False, False]
    assert answers[2] == Shortage("run", "calls", 10, 10)
    assert (run.spent.calls, run.spent.per_tool["send"]) == (10, 4)


async def test_a_call_that_stays_behind_is_given_back(ledger: Ledger) -> None:
    run = await opened_run(ledger)
    run, (first, second) = await ledger.reserve_calls(run, [call("c1"), call("c2", name="search")], Limits())
    assert isinstance(first, Reservation)
    assert isinstance(second, Reservation)
    await ledger.keep(first)
    run = await ledger.give_back(second)

    assert run.spent == Amounts(calls=1, per_tool={"lookup": 1})


async def test_a_late_answer_is_booked_to_the_turn_that_asked(ledger: Ledger, store: MemoryStore) -> None:
    """A new message came while the call of the turn before was still on its way."""
    run = await opened_run(ledger)
    run, reserved = await ledger.reserve_round(run, request(user()), Limits())
    assert isinstance(reserved, Reservation)
    await store.commit(run.id, RunChange(at=NOW, new_turn=True))
    await ledger.record_calls(run, [call("c1")], {})

    run = await ledger.settle_round(reserved, Usage(80, 20))

    assert run.spent == Amounts(rounds=1, input_tokens=80, output_tokens=20)
    assert run.turn_spent == Amounts()
    assert [step.turn for step in run.steps] == [1]


async def test_further_tries_are_rounds_too(ledger: Ledger) -> None:
    """E2, E12: and they are checked before they are made."""
    run = await opened_run(ledger)
    limits = Limits(turn=Bounds(rounds=2))
    run, _ = await ledger.reserve_round(run, request(user()), limits)
    run, fits = await ledger.reserve_attempt(run, limits)
    run, short = await ledger.reserve_attempt(run, limits)

    assert isinstance(fits, Reservation)
    assert short == Shortage("turn", "rounds", 2, 2)


async def test_an_answer_and_its_outcome_are_remembered(ledger: Ledger) -> None:
    """C12, E8, E10: and the first reason stays."""
    run = await opened_run(ledger)
    run = await ledger.record_answer(run, "Stopped.", Outcome.LIMIT_REACHED, "budget_rounds", "Report.")
    run = await ledger.record_answer(run, "Well.", Outcome.COMPLETED)

    assert (run.outcome, run.outcome_detail, run.stop_report) == (
        Outcome.LIMIT_REACHED,
        "budget_rounds",
        "Report.",
    )
    assert len(run.answers) == 2


async def test_the_trace_of_the_first_request_stays(ledger: Ledger) -> None:
    run = await opened_run(ledger)
    await ledger.trace(run, {"traceparent": "first"})
    run = await ledger.trace(run, {"traceparent": "second"})

    assert run.trace == {"traceparent": "first"}


async def test_a_run_that_is_no_longer_kept_is_a_fault_and_not_a_fresh_count(clock: Clock) -> None:
    ledger = Ledger(MemoryStore(10, 60.0, clock), clock)
    run = await opened_run(ledger)
    clock.now += 61

    acts: list[Callable[[], object]] = [
        lambda: ledger.reserve_round(run, request(user()), Limits()),
        lambda: ledger.record_calls(run, [call("c1")], {}),
        lambda: ledger.record_answer(run, "", None),
        lambda: ledger.settle_round(Reservation("r", run.id, Amounts(), 1), None),
    ]
    for act in acts:
        with pytest.raises(StoreFault, match="no longer kept"):
            await act()  # type: ignore[misc]  # each is a coroutine


async def test_random_histories_of_one_agent_stay_one_run(ledger: Ledger, store: MemoryStore) -> None:
    """E2: whatever mixture of ids, repeats, retries, compactions and questions, each released call counts once."""
    for seed in range(30):
        order = random.Random(seed)
        agent = Agent(ledger, user(f"Task {seed}"), identity=Identity(f"key:{seed}"))
        released: Counter[str] = Counter()
        for turn in range(12):
            opened = await agent.asks()
            assert opened.is_new == (turn == 0)
            if order.random() < 0.3:
                await agent.asks(is_retry=True)
            if order.random() < 0.2:
                await agent.ends(f"Answer {turn}.")
                agent.says(f"Question {turn}?")
                continue
            ids = [f"{order.choice(['x', turn])}:{place}" for place in range(order.randint(1, 3))]
            calls = [call(each, f'{{"key":{order.randint(0, 2)}}}') for each in ids]
            released.update(ids)
            await agent.hears(*calls)
            agent.runs_tools(*((each, f"result {turn}") for each in ids))
            if order.random() < 0.15 and len(agent.history) > 4:
                agent.history = [user("Summary."), *agent.history[-2:]]
        opened = await agent.asks()

        assert len(set(agent.runs)) == 1
        assert Counter(step.call_id for step in opened.run.steps) == released
        assert opened.run.spent.calls == released.total()
        assert not opened.run.open_steps
        assert opened.run.spent.calls == len(opened.run.steps)
    assert len(kept(store)) == 30


# ---- what the provider keeps ----


async def test_a_run_goes_on_from_what_the_provider_keeps(ledger: Ledger, clock: Clock) -> None:
    """C1, design §5: the new items alone are in the request; the id of the answer leads to the run."""
    first = await ledger.open(ALICE, request(user("Where is A?")))
    run = await ledger.record_calls(first.run, [call("c1")], {})
    run = await ledger.keep_answers(run, [KeptAnswer("resp_1", "resp_1", open=(call("c1"),))])

    clock.now += 1
    result = replace(request(brought(("c1", "A=12"))), previous="resp_1")
    second = await ledger.open(ALICE, result)
    assert (second.run.id, second.is_new, second.run.turn) == (run.id, False, 1)
    assert [step.status for step in second.run.steps] == [StepStatus.FOUND]

    again = await ledger.open(ALICE, result)
    assert again.run.steps == second.run.steps

    more = await ledger.keep_answers(again.run, [KeptAnswer("resp_2", "resp_2")])
    asked = replace(request(user("And B?")), previous="resp_2")
    third = await ledger.open(ALICE, asked)
    assert (third.run.id, third.run.turn) == (more.id, 2)
    assert (await ledger.open(ALICE, asked)).run.turn == 2


async def test_what_the_provider_keeps_for_one_caller_is_not_gone_on_from_by_another(ledger: Ledger) -> None:
    first = await ledger.open(ALICE, request(user("Where is A?")))
    await ledger.keep_answers(first.run, [KeptAnswer("resp_1", "resp_1")])

    other = await ledger.open(BOB, replace(request(user("Go on.")), previous="resp_1"))
    assert (other.is_new, other.run.state_lost) == (True, True)
    owner = await ledger.keeper("resp_1")
    assert owner is not None
    assert owner.identity_key == ALICE.key
    assert await ledger.keeper("resp_2") is None


async def test_only_a_few_kept_answers_are_remembered(ledger: Ledger) -> None:
    run = (await ledger.open(ALICE, request(user("Where is A?")))).run
    for number in range(KEPT + 3):
        run = await ledger.keep_answers(run, [KeptAnswer(f"resp_{number}", f"resp_{number}")])
    assert len(run.kept) == KEPT
    assert run.kept_as("resp_0") is None
    assert run.kept_as(f"resp_{KEPT + 2}") is not None
    assert run.kept_as("") is None


async def test_an_answer_that_is_too_old_to_be_remembered_still_has_its_owner(ledger: Ledger) -> None:
    """F2: else another caller could go on from it as from nobody's."""
    run = (await ledger.open(ALICE, request(user("Where is A?")))).run
    for number in range(KEPT + 1):
        run = await ledger.keep_answers(run, [KeptAnswer(f"resp_{number}", f"resp_{number}")])
    owner = await ledger.keeper("resp_0")
    assert owner is not None
    assert owner.identity_key == ALICE.key


async def test_what_a_caller_made_is_its_own_before_anything_is_in_it(ledger: Ledger) -> None:
    """F2: whoever says later to have made it changes nothing."""
    await ledger.own(ALICE, KeptAnswer("conv_1", "conv_1"), "openai-responses")
    await ledger.own(BOB, KeptAnswer("conv_1", "conv_1"), "openai-responses")
    owner = await ledger.keeper("conv_1")
    assert owner is not None
    assert owner.identity_key == ALICE.key
    first = await ledger.open(ALICE, replace(request(user("Hello.")), previous="conv_1"))
    assert (first.run.id, first.run.turn) == (owner.id, 1)
