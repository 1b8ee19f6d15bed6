"""The dialect as the rest of the proxy sees it."""

import openai
import pytest

from proxy.core.messages import Problem
from proxy.dialects import Dialect
from proxy.dialects.openai_chat import OPENAI_CHAT
from tests.dialects.chat_agent import sdk_reads


def test_the_dialect_says_who_and_where_it_is() -> None:
    """C1, F1: the paths that the official SDK asks for below its base URL."""
    dialect: Dialect = OPENAI_CHAT
    assert (dialect.name, dialect.provider, dialect.base_url) == (
        "openai-chat",
        "openai",
        "https://api.openai.com/v1",
    )
    guarded = {route.path for route in dialect.routes if route.guarded}
    assert {"/v1/chat/completions", "/chat/completions"} <= guarded
    assert all(path.endswith("/chat/completions") for path in guarded)


def test_the_key_goes_where_the_sdk_would_put_it() -> None:
    assert OPENAI_CHAT.credential("k1") == {"authorization": "Bearer k1"}
    assert "authorization" in OPENAI_CHAT.credential_headers


def test_an_error_reaches_the_developer_through_the_sdk() -> None:
    """F1, C4."""
    body = OPENAI_CHAT.render_problem(Problem(403, "budget_exhausted", "The budget is used up."))
    with pytest.raises(openai.PermissionDeniedError, match=r"The budget is used up\.") as raised:
        sdk_reads(body, 403)
    assert raised.value.code == "budget_exhausted"
