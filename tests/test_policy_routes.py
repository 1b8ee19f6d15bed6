"""The admin port's routes about the policies in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engines.test_origins import packed
from tests.playbook import play

if TYPE_CHECKING:
    from pathlib import Path


async def test_an_operator_sees_what_is_in_force_and_reloads_it(tmp_path: Path) -> None:
    """C034, F2: revision, sources, why nothing newer is; all of it needs the token."""
    file = tmp_path / "x.tar.gz"
    file.write_bytes(packed(tmp_path / "a", "one"))
    async with play(tmp_path, policy__bundle__path=str(file), admin__token="t") as stage:
        base, token = stage.callgate.admin_url, {"authorization": "Bearer t"}
        async with stage.http.get(f"{base}/policy") as answer:
            assert answer.status == 401
        async with stage.http.get(f"{base}/policy", headers=token) as answer:
            before = await answer.json()
        file.write_bytes(packed(tmp_path / "a", "two"))
        async with stage.http.post(f"{base}/policy/reload", headers=token) as answer:
            assert answer.status == 200
            after = await answer.json()
        file.write_bytes(b"x")
        async with stage.http.post(f"{base}/policy/reload", headers=token) as answer:
            assert answer.status == 409
            refused = await answer.json()
        async with stage.http.get(f"{base}/readyz") as answer:
            ready = await answer.json()

    assert (before["bundle"]["revision"], after["bundle"]["revision"]) == ("one", "two")
    assert before["sources"] == [str(file)]
    assert before["revision"] != after["revision"] == refused["revision"]
    assert "is no tar.gz" in refused["problem"]
    assert (ready["ready"], "is no tar.gz" in ready["notes"]["policy"]) == (True, True)
