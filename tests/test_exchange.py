"""What passes between server and gate."""

import orjson

from proxy.core.messages import Problem
from proxy.dialects import DIALECTS
from proxy.exchange import problem_reply


def test_an_error_has_the_dialect_s_shape_and_is_retried_only_where_that_helps() -> None:
    """F1, C015: the official SDKs obey this header."""
    for dialect in DIALECTS:
        for retryable in (False, True):
            problem = Problem(503, "policy_error", "No decision.", {"budget": "rounds"}, retryable)

            reply = problem_reply(dialect, problem)

            assert reply.status == 503
            assert reply.body == dialect.render_problem(problem)
            assert "No decision." in str(orjson.loads(reply.body))
            assert (("x-should-retry", "false") in reply.headers) is not retryable
            assert ("content-type", "application/json") in reply.headers
