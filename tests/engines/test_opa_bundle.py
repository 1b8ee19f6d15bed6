"""Policies as one file that an OPA server loads by itself."""

from pathlib import Path

from proxy.engines import load_bundle, opa_bundle
from proxy.engines.embedded import EmbeddedEngine
from proxy.engines.opa import OpaEngines
from proxy.engines.opa_wire import OpaServer
from proxy.engines.samples import sample_inputs
from tests.asked import shipped, team_rule, written
from tests.real_opa import real_opa

CLOSED = (
    'deny contains {"code": "closed", "message": "No."} if not _is_fine(input.nothing)\n\n_is_fine(x) if x'
)


async def test_a_server_with_the_bundle_decides_as_the_embedded_engine_does(tmp_path: Path) -> None:
    """F3: `manage: false`; the revision is the bundle's."""
    bundle = load_bundle([written(tmp_path / "p", team_rule(CLOSED))])
    file = tmp_path / "b.tar.gz"
    file.write_bytes(opa_bundle(bundle))
    embedded = await EmbeddedEngine.start(bundle)
    async with real_opa("--bundle", str(file)) as server:
        engines = OpaEngines(OpaServer(server.url, manage=False, timeout=30))
        asked = await engines.start(bundle)
        denied = 0
        for sample in sample_inputs(bundle):
            decision = await embedded.decide(sample)
            assert await asked.decide(sample) == decision
            denied += len(str(decision["deny"])) - len("[]")
        assert denied
        assert asked.revision == f"{file}:{bundle.revision}"
        await asked.close()
        await engines.close()
    await embedded.close()


def test_equal_bundles_are_equal_bytes() -> None:
    assert opa_bundle(shipped()) == opa_bundle(load_bundle([]))
