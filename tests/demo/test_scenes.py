"""Every scene of the refund story, with both SDKs: the mission's example as tests (D14, A10, D12, B3)."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from proxy.demo import Answer
from proxy.demo.agents import SDKS, Sdk
from proxy.demo.expectations import mismatches
from proxy.demo.scenes import SCENES, Scene
from proxy.demo.stage import Stage, on_stage
from proxy.demo.talk import Made, Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")
each_scene = pytest.mark.parametrize("scene", [pytest.param(scene, id=scene.name) for scene in SCENES])
each_sdk = pytest.mark.parametrize("sdk", [pytest.param(sdk, id=sdk.name) for sdk in SDKS])

ORDER = Made("1", "get_order", {"order_id": "A123"}, '{"found": true, "data": {"order_id": "A123"}}')
DOWN = Made("2", "search_policy", {}, '{"error": "DB_TIMEOUT"}')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with on_stage() as set_up:
        yield set_up


@each_sdk
@each_scene
async def test_a_scene_comes_out_right(stage: Stage, scene: Scene, sdk: Sdk) -> None:
    """D14: allowed reads, the refund tool, a wrong order, time-outs, repetition, a forbidden order, budgets.

    A10: the user says "keep trying until it works", and the run stays under control.
    """
    assert mismatches(await stage.play(scene, sdk)) == []


@each_scene
async def test_a_model_without_tools_answers_in_words(scene: Scene) -> None:
    """B3: whatever its weakness, a last request gets an answer."""
    talk = Talk("What about A123?", ("get_order",), may_call=False, made=(), notes=())

    answer = scene.model(talk)

    assert answer.text
    assert not answer.calls


async def test_a_model_decides_from_what_it_has_before_it() -> None:
    """No queue of answers would do: the same model says other things to other requests."""
    outage = next(scene for scene in SCENES if scene.name == "outage").model

    def said(*made: Made) -> Answer:
        return outage(Talk("What about A123?", (), may_call=True, made=made, notes=()))

    assert [call.name for call in said().calls] == ["get_order"]
    assert [call.name for call in said(ORDER).calls] == ["search_policy"]
    assert [call.name for call in said(ORDER, DOWN, DOWN).calls] == ["search_policy"]


async def test_scenes_are_told_apart_by_name_and_question() -> None:
    assert len({scene.name for scene in SCENES}) == len(SCENES)
    assert len({scene.user for scene in SCENES}) == len(SCENES)
