"""Bundle files: made and read in memory; what could hide something or mean two things is refused by name."""

import gzip
import io
import json
import subprocess
import tarfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, strategies as st

from proxy.engines import load_bundle
from proxy.engines.archive import MOST_MEMBERS, read_archive, written_archive
from proxy.engines.policy_files import PolicyFile, PolicyFiles, files_of
from tests.asked import team_rule, written
from tests.tools import opa

RULE = 'deny contains {"code": "x", "message": "m"} if input.phase == "calls"'
REGO = team_rule(RULE)
(NAME,) = REGO
MOST = 1 << 20


def tarred(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", errors="surrogateescape") as archive:
        for member, content in members:
            entry = tarfile.TarInfo(member) if isinstance(member, str) else member
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def packed(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    return gzip.compress(tarred(*members))


def with_files(**more: bytes | str) -> bytes:
    files = {**REGO, **more}
    return packed(*((name, text.encode() if isinstance(text, str) else text) for name, text in files.items()))


def refused(raw: bytes, most: int = MOST) -> str:
    found = read_archive(raw, "x.tar.gz", most)
    assert found.files == ()
    (fault,) = found.faults
    assert fault.file == "x.tar.gz"
    return fault.message


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


# --- what is read ---------------------------------------------------------------------------------------------------


def test_the_same_files_give_the_same_bytes_and_load_like_their_folder(tmp_path: Path) -> None:
    """F2: a policy is shipped as one file."""
    rules = {"callgate/rules.yaml": "org: {denied_tools: [a]}", "callgate/team/blue/rules_test.rego": "x"}
    one = files_of(written(tmp_path / "one", REGO | rules))
    raw = written_archive(one, "r1")
    found = read_archive(raw, "x.tar.gz", MOST)

    assert raw == written_archive(files_of(written(tmp_path / "two", rules | REGO)), "r1")
    assert raw != written_archive(one, "r2")
    assert (found.faults, found.revision) == ((), "r1")
    assert load_bundle([found]).revision == load_bundle([one]).revision
    assert found.files[-1].name == "x.tar.gz/callgate/team/blue/rules_test.rego"


@pytest.mark.parametrize("top", ["", "./", "/", "policies/", "./a/b/"])
def test_it_may_be_made_by_tar_with_a_folder_above(top: str) -> None:
    folder = entry(f"{top}callgate/team", tarfile.DIRTYPE)
    found = read_archive(packed((folder, b""), (top + NAME, REGO[NAME].encode())), "x", MOST)

    assert [str(file.place) for file in found.files] == [NAME]


@pytest.mark.parametrize("mode", [["-b", "p"], ["p"]])
def test_it_may_be_made_by_opa_build(tmp_path: Path, mode: list[str]) -> None:
    """F3: paths with a slash before them, data in one data.json."""
    data = json.dumps({"rules": {"org": {"denied_tools": ["a"]}}})
    written(tmp_path / "p", REGO | {"callgate/data.json": data})
    subprocess.run([opa(), "build", *mode, "-r", "r7", "-o", "x.tar.gz"], cwd=tmp_path, check=True)
    found = read_archive((tmp_path / "x.tar.gz").read_bytes(), "x.tar.gz", MOST)
    bundle = load_bundle([found])

    assert found.revision == "r7"
    assert bundle.data["rules"]["org"] == {"denied_tools": ["a"]}
    assert "team.blue" in bundle.layers


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("data.json", {"callgate": {"rules": {"profile": "strict"}}}),
        ("callgate/data.json", {"rules": {"profile": "strict"}}),
        ("callgate/rules/data.json", {"profile": "strict"}),
        ("callgate/rules.json", {"profile": "strict"}),
    ],
)
def test_rule_data_may_stand_where_opa_has_data(name: str, tree: object) -> None:
    found = read_archive(with_files(**{name: json.dumps(tree)}), "x", MOST)

    assert load_bundle([found]).data["rules"]["profile"] == "strict"


def test_what_a_server_packed_once_more_is_read_too() -> None:
    assert read_archive(gzip.compress(with_files()), "x", MOST) == read_archive(with_files(), "x", MOST)


def test_other_files_are_left_alone() -> None:
    raw = with_files(
        **{"README.md": "", ".signatures.json": "{}", "other/rules.yaml": "a: 1", "data.json": "{}"}
    )

    assert [str(file.place) for file in read_archive(raw, "x", MOST).files] == [NAME]


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../callgate/x.rego",
        "callgate/../../x.rego",
        "//callgate/x.rego",
        "/./callgate/x.rego",
        "callgate//x.rego",
        "c:/callgate/x.rego",
        "callgate\\x.rego",
        "callgate/a\nb.rego",
        "callgate/a\u009b.rego",
        "callgate/\udcff.rego",
        "callgate/x.rego.",
        f"callgate/{'a' * 600}.rego",
    ],
)
def test_names_that_lead_elsewhere_or_are_none_are_refused(name: str) -> None:
    said = refused(packed((NAME, REGO[NAME].encode()), (name, b"package x")))

    assert ascii(name[:40])[:-1] in said


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z"]
)
def test_links_and_devices_are_refused(kind: bytes) -> None:
    assert "'callgate/x.rego': is no plain file" in refused(
        packed((entry("callgate/x.rego", kind, "a"), b""))
    )


def test_a_file_with_holes_is_refused() -> None:
    """Its size is whatever it says."""
    assert refused(packed((entry("callgate/x.rego", tarfile.GNUTYPE_SPARSE), b"")))


@pytest.mark.parametrize(
    "other", [NAME, f"/{NAME}", f"./{NAME}", NAME.upper(), NAME.replace("rules", "RULES")]
)
def test_two_files_that_somebody_could_take_for_one_are_refused(other: str) -> None:
    assert "is there twice" in refused(packed((NAME, b""), (other, b"")))


def test_bombs_are_refused_before_they_unfold() -> None:
    """A gigabyte of zeros is a megabyte on the way."""
    assert "holds more than" in refused(gzip.compress(b"\0" * (MOST + 1)))
    assert "holds more than" in refused(gzip.compress(gzip.compress(b"\0" * (MOST + 1))))
    many = packed(*((f"callgate/{number}.rego", b"") for number in range(MOST_MEMBERS + 1)))
    assert "members" in refused(many, 1 << 24)


def test_a_part_of_a_bundle_is_no_bundle() -> None:
    """C034: a lost file would be a lost prohibition."""
    tar = tarred((NAME, REGO[NAME].encode()), ("callgate/team/red/x.rego", b"package callgate.team.red"))

    assert "damaged" in refused(with_files()[:-5])
    assert "does not end" in refused(gzip.compress(tar[:1024]))
    assert "does not end" in refused(gzip.compress(tar[:1024] + b"x" * 512 + tar[1536:]))
    assert "is no tar.gz" in refused(tar)
    assert refused(gzip.compress(b""))
    assert refused(b"")


def test_a_size_below_nothing_ends() -> None:
    """CVE-2025-8194."""
    made = entry("callgate/x.rego", tarfile.REGTYPE)
    header = bytearray(made.tobuf())
    header[124:136] = b"\xff" * 10 + b"\xfc\x00"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)

    assert refused(gzip.compress(bytes(header) + b"\0" * 1024))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("policy.rego", "package x", "policy.rego: is not below callgate/"),
        ("other/callgate/org/x.rego", "package callgate.org", "several folders callgate"),
        ("policy.wasm", "", "compiled policies"),
        ("data.json", '{"users": []}', "the only data that is read"),
        ("callgate/team/blue/data.json", '{"deny": []}', "the only data that is read"),
        ("data.json", '{"a": 1, "a": 2}', "data.json"),
        ("data.json", b"\xff", "not UTF-8"),
        (".manifest", "[]", "no JSON object"),
        (".manifest", '{"roots": ["callgate/team/red"]}', "outside the roots"),
        (".manifest", '{"roots": ""}', "list of paths"),
        (".manifest", '{"revision": "a\\nb"}', "one line"),
        (".manifest", '{"rego_version": 0}', "only Rego v1"),
    ],
)
def test_what_would_be_left_out_in_silence_is_refused(
    name: str, content: str | bytes, complaint: str
) -> None:
    assert complaint in refused(with_files(**{name: content}))


def test_a_bundle_without_policies_is_refused() -> None:
    assert "no policies" in refused(packed(("README.md", b"")))


@given(st.data())
def test_whatever_comes_in_is_files_or_one_fault(choice: st.DataObject) -> None:
    """A changed byte in the tar is never an exception, and never files that are not there."""
    tar = bytearray(tarred((NAME, b"package callgate.team.blue\n"), ("callgate/rules.yaml", b"{}")))
    for _ in range(choice.draw(st.integers(1, 4))):
        tar[choice.draw(st.integers(0, 2559))] = choice.draw(st.integers(0, 255))
    found = read_archive(gzip.compress(bytes(tar)), "x", MOST)

    assert bool(found.files) != bool(found.faults)
    assert read_archive(choice.draw(st.binary(max_size=64)), "x", MOST).faults


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True).map(lambda name: f"callgate/org/{name}.rego"),
        st.binary(max_size=200),
        min_size=1,
    )
)
def test_what_is_written_is_read_again(files: dict[str, bytes]) -> None:
    made = PolicyFiles(
        tuple(PolicyFile(PurePosixPath(name), f"x/{name}", text) for name, text in sorted(files.items()))
    )

    assert read_archive(written_archive(made, "r"), "x", MOST).files == made.files
