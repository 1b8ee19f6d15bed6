"""Where settings come from, and what is said when they are wrong."""

from pathlib import Path

import pytest

from proxy.config import Settings, SettingsFault, load_settings
from proxy.core.verdicts import Mode
from proxy.dialects import DIALECTS
from proxy.settings import setting_name

NAME = setting_name(DIALECTS[0].name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "callgate.yaml"


def complaints(file: Path, text: str, **environment: str) -> list[str]:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsFault) as refused:
        load_settings(file, environment=environment)
    return [problem.replace(f"{file}:", "file:") for problem in refused.value.problems]


def test_without_file_and_variables_the_defaults_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert load_settings(environment={}) == Settings()


def test_the_environment_wins_over_the_file_and_options_over_both(file: Path) -> None:
    file.write_text(
        "listen: {host: a, port: 1}\nlimits: {turn: {rounds: 1, calls: 2, seconds: 3}}\n", "utf-8"
    )

    settings = load_settings(
        file,
        {"limits.turn.calls": 30, "listen.port": 3},
        {
            "CALLGATE_LISTEN__PORT": "2",
            "CALLGATE_LIMITS__TURN__CALLS": "20",
            "CALLGATE_LIMITS__TURN__SECONDS": "null",
        },
    )

    assert (settings.listen.host, settings.listen.port) == ("a", 3)
    turn = settings.limits.turn
    assert (turn.rounds, turn.calls, turn.seconds) == (1, 30, None)


def test_the_file_is_named_by_a_variable_or_lies_in_the_working_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("max_body_bytes: 7\n", "utf-8")
    monkeypatch.chdir(file.parent)

    assert load_settings(environment={}).max_body_bytes == 7
    monkeypatch.chdir("/")
    assert load_settings(environment={"CALLGATE_CONFIG": str(file)}).max_body_bytes == 7


def test_secrets_lists_and_mappings_come_from_variables_too(file: Path) -> None:
    file.write_text(f"identity:\n  api_keys:\n    - {{name: one, hash: 'sha256:{'0' * 64}'}}\n", "utf-8")

    settings = load_settings(
        file,
        environment={
            f"CALLGATE_UPSTREAM__{NAME.upper()}__CREDENTIAL": "provider-secret",
            f"CALLGATE_IDENTITY__API_KEYS__0__CREDENTIALS__{NAME.upper()}": "own-secret",
            "CALLGATE_IDENTITY__TRUSTED_HEADER__TRUSTED_NETWORKS": '["10.0.0.0/8"]',
            "CALLGATE_LIMITS__TURN__PER_TOOL": '{"GetOrder": 1}',
            "CALLGATE_POLICY__FOLDERS__0": "a",
            "CALLGATE_POLICY__FOLDERS__1": "b",
        },
    )

    credential = settings.upstream.provider(NAME).credential
    assert credential
    assert credential.get_secret_value() == "provider-secret"
    assert settings.identity.api_keys[0].credentials[NAME].get_secret_value() == "own-secret"
    assert len(settings.identity.trusted_header.trusted_networks) == 1
    assert settings.limits.turn.per_tool == {"GetOrder": 1}
    assert settings.policy.folders == (Path("a"), Path("b"))


def test_what_a_cluster_says_about_its_services_is_not_meant_for_us(file: Path) -> None:
    file.write_text("", "utf-8")
    announced = {
        "CALLGATE_PORT": "tcp://10.0.0.1:8788",
        "CALLGATE_SERVICE_HOST": "10.0.0.1",
        "CALLGATE_PORT_8788_TCP_ADDR": "10.0.0.1",
    }

    assert load_settings(file, environment=announced) == Settings()


def test_off_is_a_word_and_not_a_truth_value(file: Path) -> None:
    file.write_text("checks: {modes: {progress: off}}\ntelemetry: {capture_content: true}\n", "utf-8")

    settings = load_settings(file, environment={})

    assert settings.checks.modes == {"progress": Mode.OFF}
    assert settings.telemetry.capture_content


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("listen: {prot: 1}", "file:1:10: listen.prot: there is no such setting; did you mean port?"),
        ("lisen: {}", "file:1:1: lisen: there is no such setting; did you mean listen?"),
        ("listen:\n  port: many", "file:2:3: listen.port: should be a valid integer"),
        ("denied: maybe", "file:1:1: denied: should be 'answer' or 'error'"),
        ("upstream:\n  idle_secs: 1", "file:2:3: upstream.idle_secs: there is no such setting; did you mean idle_seconds?"),
        (f"upstream:\n  {NAME}: {{base_ur: x}}", f"file:2:{len(NAME) + 6}: upstream.{NAME}.base_ur: there is no such"),
        (f"upstream: {{{NAME}x: {{}}}}", f"upstream.{NAME}x: there is no such setting; did you mean {NAME}?"),
        ("identity:\n  api_keys:\n  - {name: x}", "file:3:5: identity.api_keys.0.hash: is missing"),
        ("listen: [1]", "file:1:1: listen: should be a valid dictionary"),
        ("- 1", "file:1:1: should be names and values"),
        ("a: [", "file:1:5: cannot be read"),
        ("a: 1\na: 2", "file:2:1: cannot be read: a stands here twice"),
        ("? [a]\n: 1", "file:1:3: cannot be read: a name has to be a plain word"),
        ("a: &a [*a]", "file:1:4: cannot be read: too deep"),
        ("a: \x00", "file: cannot be read"),
        ("a: !!python/object:os.system x", "file:1:4: cannot be read"),
    ],
)  # fmt: skip
def test_a_fault_in_the_file_is_named_with_its_place(file: Path, text: str, complaint: str) -> None:
    (problem,) = complaints(file, text)

    assert complaint.removeprefix("file:") in problem.removeprefix("file:")


def test_everything_that_is_wrong_is_said_at_once(file: Path) -> None:
    found = complaints(
        file,
        "listen: {port: x}\nupstream: {nobody: {}, connect_seconds: 0}",
        CALLGATE_ADMIN__PORT="y",
        CALLGATE_ADMN__TOKEN="z",
        CALLGATE_POLICY__FOLDERS="[",
    )

    assert len(found) == 6
    assert "variable CALLGATE_ADMIN__PORT: admin.port: should be a valid integer" in "\n".join(found)
    assert "variable CALLGATE_ADMN__TOKEN: admn.token: there is no such setting; did you mean admin?" in found
    assert "variable CALLGATE_POLICY__FOLDERS: is not JSON, though it begins like it" in found


def test_no_value_stands_in_a_fault(file: Path) -> None:
    found = complaints(file, "admin: {token: [hunter2]}\nidentity: {api_keys: [{hash: hunter2, name: n}]}")

    assert len(found) == 2
    assert "hunter2" not in "\n".join(found)


def test_a_place_that_a_list_does_not_have_is_an_error(file: Path) -> None:
    for variable in ("CALLGATE_POLICY__FOLDERS__1", "CALLGATE_POLICY__FOLDERS__0__X__Y"):
        (problem, *_) = complaints(file, "", **{variable: "a"})

        assert problem.startswith(f"variable {variable}: policy.folders.")


def test_a_file_that_is_not_there_or_not_text_is_an_error(file: Path) -> None:
    with pytest.raises(SettingsFault, match="cannot be read"):
        load_settings(file, environment={})
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsFault, match="is not UTF-8 text"):
        load_settings(file, environment={})
