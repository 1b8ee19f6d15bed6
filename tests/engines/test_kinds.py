"""Which engine evaluates is a setting."""

from proxy.engines.embedded import EmbeddedEngine
from proxy.engines.kinds import FOREIGN, engines_of
from proxy.engines.opa import OpaEngines
from proxy.engines.opa_wire import OpaServer
from proxy.engines.samples import sample_inputs
from tests.asked import shipped


async def test_without_a_server_the_embedded_engine_decides() -> None:
    """F3."""
    engines = engines_of(None, workers=1, deadline=20)
    started = await engines.start(shipped())
    try:
        assert isinstance(started, EmbeddedEngine)
        assert started.revision == shipped().revision
        assert engines.trouble == ""
    finally:
        await started.close()
        await engines.close()


async def test_with_a_server_that_one_decides() -> None:
    engines = engines_of(OpaServer("http://127.0.0.1:1"), workers=1, deadline=20)
    assert isinstance(engines, OpaEngines)
    await engines.close()


def test_of_a_server_with_its_own_policies_nothing_is_known() -> None:
    """Any rule there may read results, so they are always given; samples are for the organisation."""
    assert FOREIGN.reads_results("any", "any")
    assert {sample["identity"]["team"] for sample in sample_inputs(FOREIGN)} == {"sample"}
