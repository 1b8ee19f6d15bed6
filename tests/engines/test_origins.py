"""Everything that policies are read from."""

from dataclasses import replace
from pathlib import Path

import pytest

from proxy.engines.archive import written_archive
from proxy.engines.bundle import shipped_folder
from proxy.engines.fetching import BundleSource
from proxy.engines.origins import Origins
from proxy.engines.policy_files import files_of
from proxy.errors import EngineFault
from tests.asked import Configured, opened, policy_says, team_rule, written
from tests.bundle_server import bundle_server


def rule(code: str) -> dict[str, str]:
    return team_rule(f'deny contains {{"code": "{code}", "message": "m"}}')


def listed(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def packed(folder: Path, code: str) -> bytes:
    return written_archive(files_of(written(folder, rule(code))), code)


async def test_later_origins_count_over_earlier_ones(tmp_path: Path) -> None:
    """F2: folders, the bundle, the file with rule data, the settings."""
    folder = written(
        tmp_path / "f", {"callgate/rules.yaml": "org: {allowed_tools: [f], denied_tools: [f], roles: {}}"}
    )
    inside = written(tmp_path / "b", {"callgate/rules.yaml": "org: {allowed_tools: [b], denied_tools: [b]}"})
    file = tmp_path / "x.tar.gz"
    file.write_bytes(written_archive(files_of(inside), "r1"))
    named = tmp_path / "own.yaml"
    named.write_text("org: {denied_tools: [n]}")
    origins = Origins([shipped_folder(), folder], named, BundleSource(path=file), {"profile": "strict"})
    bundle = await origins.bundle()

    assert bundle.data["rules"]["org"] == {"allowed_tools": ["b"], "denied_tools": ["n"], "roles": {}}
    assert bundle.data["rules"]["profile"] == "strict"
    assert origins.titles == (str(folder), str(file), str(named))
    assert origins.loaded is not None
    assert origins.loaded.revision == "r1"


async def test_what_has_not_changed_is_not_loaded_again(tmp_path: Path) -> None:
    folder = written(tmp_path, rule("one"))
    origins = Origins([folder], None, None, {})
    first = await origins.bundle()
    assert await origins.bundle() is first

    written(tmp_path, rule("two"))
    assert (await origins.bundle()).revision != first.revision

    written(tmp_path, team_rule("deny contains {"))
    for _ in range(2):
        with pytest.raises(EngineFault, match=r"rules\.rego:4"):
            await origins.bundle()


async def test_policies_come_from_a_server_and_a_bad_newer_bundle_leaves_the_old(tmp_path: Path) -> None:
    """C034, F2."""
    async with (
        bundle_server(packed(tmp_path / "a", "one")) as server,
        opened(Configured(bundle_source=BundleSource(url=server.url))) as policies,
    ):
        before = policies.revision
        await policies.reload()
        assert server.given == [200, 304]

        server.content = b"no bundle"
        for _ in range(2):
            with pytest.raises(EngineFault, match=r"x\.tar\.gz: error: is no tar\.gz"):
                await policies.reload()
        assert policies.revision == before
        assert "is no tar.gz" in policies.problem
        assert server.given == [200, 304, 200, 304]

        server.content = packed(tmp_path / "a", "two")
        await policies.reload()
        assert policies.problem == ""
        assert [denial.code for denial in (await policy_says(policies)).denials] == ["two"]


async def test_without_the_server_there_is_no_start_unless_a_kept_bundle_may_serve(tmp_path: Path) -> None:
    """C034: fail closed; what was in force may be kept, and only that."""
    cache = tmp_path / "kept.tar.gz"
    async with bundle_server(packed(tmp_path / "a", "one")) as server:
        source = BundleSource(url=server.url, cache=cache, required=False)
        async with opened(Configured(bundle_source=source)) as policies:
            server.content = b"no bundle"
            with pytest.raises(EngineFault):
                await policies.reload()
    assert cache.read_bytes() == packed(tmp_path / "a", "one")
    assert not any(path.match(".*") for path in listed(tmp_path))

    with pytest.raises(EngineFault, match="cannot be fetched"):
        async with opened(Configured(bundle_source=replace(source, required=True))):
            pass
    with pytest.raises(EngineFault, match=r"missing: cannot be read"):
        async with opened(Configured(bundle_source=replace(source, cache=tmp_path / "missing"))):
            pass
    async with opened(Configured(bundle_source=source)) as policies:
        assert policies.origins is not None
        assert policies.origins.is_cached
        assert [denial.code for denial in (await policy_says(policies)).denials] == ["one"]


async def test_a_bundle_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineFault, match="cannot be read"):
        await Origins([], None, BundleSource(path=tmp_path / "x.tar.gz"), {}).bundle()


async def test_a_cache_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bundle_server(packed(tmp_path / "a", "one")) as server:
        source = BundleSource(url=server.url, cache=tmp_path / "no" / "kept")
        async with opened(Configured(bundle_source=source)):
            pass

    assert "cannot be kept" in caplog.text
