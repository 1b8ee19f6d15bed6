"""Where one turn of one agent stands, from its request to its reply."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .core.messages import Exchange, Malformed, RequestEdit, TextExchange, Turn, Usage
from .core.spending import Meter, unmetered
from .errors import ClientFault
from .listening import Listener

if TYPE_CHECKING:
    from .core.limits import Reservation
    from .core.messages import Request
    from .core.runs import Run
    from .core.verdicts import Facts, Verdict
    from .dialects import Dialect
    from .engines import Held
    from .exchange import Incoming
    from .recorder import Recorder


@dataclass(slots=True)
class State:
    """Where one turn of one agent stands."""

    id: str
    """Of this request: joins audit lines, headers and spans."""
    incoming: Incoming
    recorder: Recorder
    facts: Facts
    policies: Held
    """Those in force when the turn began; they decide it to its end."""
    meter: Meter = unmetered
    """What usage of this model costs."""
    listener: Listener = field(default_factory=Listener)
    """Hears the calls in this agent's text."""
    edit: RequestEdit = field(default_factory=RequestEdit)
    last: Verdict | None = None
    """Set: the answer that comes now is the last of this turn and may hold no call, for this reason."""
    reasks_left: int = 0
    retries_left: int = 0
    reservation: Reservation | None = None
    """Put aside for the first round when the request was judged."""
    holding: bool = False
    """The newest answer has not reached the agent, though it is complete: a call in it waits for a person."""
    answers_left: int = 0
    """How often the model may be asked again for another final answer."""
    answer_judged: bool = False
    """The final answer was judged before it left."""
    flag: Verdict | None = None
    """What was objected to in the final answer, which leaves all the same."""
    again: bool = False
    """The model is to be asked (again): another round follows."""
    earlier: list[Turn] = field(default_factory=list)
    """Answers of this turn that were abandoned for another one."""
    exchanges: list[Exchange | TextExchange] = field(default_factory=list)

    @property
    def dialect(self) -> Dialect:
        """The wire format of this agent."""
        return self.incoming.dialect

    @property
    def answer_id(self) -> str:
        """The id of an answer that the proxy itself has to open."""
        return f"msg_{self.id}"

    @property
    def request(self) -> Request:
        """What the agent asked."""
        return self.facts.request

    @property
    def run(self) -> Run:
        """The run as last seen."""
        return self.facts.run

    @run.setter
    def run(self, run: Run) -> None:
        self.facts = replace(self.facts, run=run)

    @property
    def body(self) -> bytes:
        """The request as it goes upstream now; the agent's own bytes where nothing is to be changed. Raises ClientFault
        where they cannot be changed: the request is ambiguous (a key occurs twice, say)."""
        edit = replace(self.edit, exchanges=tuple(self.exchanges)) if self.exchanges else self.edit
        if not edit:
            return self.incoming.body
        try:
            return self.dialect.edit_request(self.incoming.body, edit)
        except Malformed as fault:
            raise ClientFault(str(fault)) from None

    def shown_as(self, turn: Turn) -> str:
        """The id by which the agent knows this answer: in a stream that went on, the first one's."""
        return self.earlier[0].id if self.request.stream and self.earlier else turn.id

    @property
    def earlier_text(self) -> str:
        """Visible text of the abandoned answers."""
        return "\n\n".join(turn.text for turn in self.earlier if turn.text)

    @property
    def earlier_usage(self) -> Usage:
        """What the abandoned answers cost."""
        return sum((turn.usage for turn in self.earlier if turn.usage), Usage())
