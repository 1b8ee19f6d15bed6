"""What can be seen of a scene: both ends of the wire, the journal and the trace, each scene apart from the others."""

import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hatchling.builders.wheel import WheelBuilder

from proxy.demo.agents import SDKS
from proxy.demo.scenes import SCENES, Scene
from proxy.demo.stage import AGENT_KEY, PROVIDER_KEY, RULES, Stage, on_stage, settings_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROOT = Path(__file__).resolve().parent.parent.parent
BY_NAME = {scene.name: scene for scene in SCENES}
READS: Scene = BY_NAME["reads"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with on_stage() as set_up:
        yield set_up


async def test_a_performance_holds_one_run_and_nothing_of_an_earlier_one(stage: Stage) -> None:
    """A9: one id strings records and spans together."""
    await stage.play(READS, SDKS[0])
    performance = await stage.play(READS, SDKS[0])

    runs = {record["run"] for record in performance.records if record["kind"] != "lost"}
    assert len(runs) == 1
    assert {span.attributes["callgate.run.id"] for span in performance.spans} == runs
    assert len(performance.seen) == READS.expected.requests
    assert performance.end is not None
    assert performance.end["outcome"] == "completed"


async def test_the_provider_gets_its_own_key_and_never_the_agents(stage: Stage) -> None:
    """F2: the key says who calls, and stays here."""
    for sdk in SDKS:
        performance = await stage.play(READS, sdk)
        sent = " ".join(str(value) for seen in performance.seen for value in seen.headers.values())

        assert PROVIDER_KEY in sent
        assert AGENT_KEY not in sent


async def test_calls_are_known_as_released_or_refused(stage: Stage) -> None:
    performance = await stage.play(BY_NAME["batch"], SDKS[1])

    assert len(performance.released) == 2
    assert len(performance.refused) == 1
    assert not set(performance.released) & set(performance.refused)
    assert performance.refused[0].encode() not in performance.received


async def test_settings_come_from_nowhere_but_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callgate.yaml that lies in the folder, or a variable, does not change the story."""
    (tmp_path / "callgate.yaml").write_text("denied: error\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALLGATE_DENIED", "error")

    settings = settings_of("http://127.0.0.1:1", tmp_path / "audit.jsonl")

    assert settings.denied == "answer"
    assert settings.listen.port == 0
    assert settings.policy.data == RULES


async def test_the_wheel_carries_what_the_demo_needs(tmp_path: Path) -> None:
    """It runs from an installed wheel, without a checkout."""
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {"proxy/demo/rules.yaml", "proxy/demo/show.py"} <= names
    assert "proxy/_policies/callgate/agent/refund_bot/rules.yaml" in names
