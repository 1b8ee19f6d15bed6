"""Files of policies as bytes with names."""

from pathlib import Path

from proxy.engines import load_bundle
from proxy.engines.policy_files import LARGEST_FILE, PolicyFiles, files_of, one_file
from tests.asked import team_rule, written

RULE = 'deny contains {"code": "x", "message": "m"} if input.phase == "calls"'


def test_a_folder_is_read_in_order_and_without_hidden_and_foreign_files(tmp_path: Path) -> None:
    files = team_rule(RULE) | {
        "callgate/rules.yaml": "{}",
        "callgate/.git/x.rego": "",
        "callgate/README.md": "",
        "elsewhere/x.rego": "",
    }
    found = files_of(written(tmp_path, files))

    assert [str(file.place) for file in found.files] == [
        "callgate/rules.yaml",
        "callgate/team/blue/rules.rego",
    ]
    assert found.files[1].name == f"{tmp_path}/callgate/team/blue/rules.rego"
    assert found.faults == ()


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    one = files_of(written(tmp_path / "one", team_rule(RULE)))
    same = files_of(written(tmp_path / "two", team_rule(RULE)))
    other = files_of(written(tmp_path / "three", team_rule(RULE + "\n")))

    assert one.digest == same.digest
    assert len({one.digest, other.digest, PolicyFiles().digest, files_of(tmp_path).digest}) == 4


def test_no_more_of_a_file_is_read_than_tells_that_it_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_bytes(b"#" * (LARGEST_FILE + 100))

    assert len(one_file(tmp_path / "rules.yaml").files[0].content) == LARGEST_FILE + 1


def test_files_that_were_read_load_like_the_folder_they_are_from(tmp_path: Path) -> None:
    """F2: one reader, one lint, wherever the files come from."""
    folder = written(tmp_path, team_rule(RULE))

    assert load_bundle([files_of(folder)]) == load_bundle([folder])
