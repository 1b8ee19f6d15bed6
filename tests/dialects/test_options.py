"""What is shown of a hosted tool to policies."""

from proxy.dialects.options import MAX_DEPTH, options_of


def test_secrets_are_left_out_at_any_depth() -> None:
    shown = options_of(
        {
            "type": "mcp",
            "server_url": "https://tools.example.test",
            "authorization": "Bearer s3cret",
            "authorization_token": "s3cret",
            "headers": {"x-key": "s3cret"},
            "parameters": {"index": "orders", "authentication": {"key": "s3cret"}, "apiKey": "s3cret"},
            "sources": [{"name": "a", "connection_string": "s3cret", "client_secret": "s3cret"}],
            "token": "s3cret",
            "idToken": "s3cret",
            "apiAuth": {"apiKeyConfig": {"apiKeyString": "s3cret"}},
            "auth_config": {"api_key_string": "s3cret"},
            "max_tokens": 5,
            "keywords": ["x"],
        }
    )
    assert "s3cret" not in str(shown)
    assert shown == {
        "type": "mcp",
        "server_url": "https://tools.example.test",
        "parameters": {"index": "orders"},
        "sources": [{"name": "a"}],
        "max_tokens": 5,
        "keywords": ["x"],
    }


def test_what_is_nested_too_deep_is_not_shown() -> None:
    deep: object = "s3cret"
    for _ in range(MAX_DEPTH + 2):
        deep = {"a": deep}
    assert "s3cret" not in str(options_of({"a": deep}))
    flat: object = "s3cret"
    for _ in range(MAX_DEPTH + 2):
        flat = [flat]
    assert "s3cret" not in str(options_of({"a": flat}))
