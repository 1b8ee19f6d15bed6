"""The settings tree: safe defaults, everything documented, nothing half right."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

from proxy.core.verdicts import CheckSettings, Mode
from proxy.dialects import DIALECTS
from proxy.settings import ApiKey, Provider, Settings, setting_name


def parts(part: type[BaseModel], above: str = "") -> Iterator[tuple[str, str | None]]:
    for name, field in part.model_fields.items():
        yield f"{above}{name}", field.description
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from parts(field.annotation, f"{above}{name}.")


def test_every_setting_says_what_it_is() -> None:
    every = [*parts(Settings), *parts(Provider, "provider."), *parts(ApiKey, "key.")]

    assert [name for name, description in every if not description] == []
    assert len(every) > 60


def test_the_defaults_listen_to_this_machine_only_and_fail_closed() -> None:
    settings = Settings()

    assert settings.listen.host == settings.admin.host == "127.0.0.1"
    assert settings.admin.token.get_secret_value() == ""
    assert settings.faults.engine == "closed"
    assert not settings.telemetry.capture_content
    assert settings.for_checks() == CheckSettings(results=settings.results.rendering)


def test_each_dialect_has_an_upstream_of_its_own() -> None:
    first, *others = (dialect.name for dialect in DIALECTS)
    settings = Settings.model_validate(
        {"upstream": {setting_name(first): {"base_url": "http://127.0.0.1:1/v1/", "credential": "hunter2"}}}
    )

    assert settings.upstream.provider(first).base_url == "http://127.0.0.1:1/v1"
    assert "hunter2" not in repr(settings)
    assert all(settings.upstream.provider(other) == Provider() for other in others)


def test_a_key_names_providers_that_there_are() -> None:
    key = {
        "hash": f"sha256:{'0' * 64}",
        "name": "n",
        "credentials": {"near": "x", setting_name(DIALECTS[0].name): "y"},
    }
    near = {"near": {"dialect": DIALECTS[0].name}}

    with pytest.raises(ValidationError, match=r"api_keys\.0\.credentials\.near: there is no provider near"):
        Settings.model_validate({"identity": {"api_keys": [key]}})
    settings = Settings.model_validate({"identity": {"api_keys": [key]}, "upstream": near})
    assert settings.identity.api_keys[0].credentials["near"].get_secret_value() == "x"


def test_keys_are_told_apart_and_written_as_digests_only() -> None:
    key = {"hash": f"sha256:{'0' * 64}", "name": "n"}

    for second in ({**key, "name": "m"}, {**key, "hash": f"sha256:{'1' * 64}"}):
        with pytest.raises(ValidationError, match="the same"):
            Settings.model_validate({"identity": {"api_keys": [key, second]}})
    with pytest.raises(ValidationError, match="64 hex digits") as refused:
        Settings.model_validate({"identity": {"api_keys": [{"hash": "the-key-itself", "name": "n"}]}})
    assert "the-key-itself" not in str(refused.value)


def test_checks_are_switched_by_dotted_name() -> None:
    checks = Settings.model_validate({"checks": {"modes": {"progress": "shadow", "progress.cycle": "off"}}})

    core = checks.for_checks()

    assert core.mode("progress.same_call") is Mode.SHADOW
    assert core.mode("progress.cycle") is Mode.OFF
    assert core.mode("budget") is Mode.ENFORCE
