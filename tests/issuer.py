"""An identity provider on loopback: it makes keys and tokens, and serves its keys."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AUDIENCE = "callgate"


@dataclass(slots=True)
class Key:
    """A private key and what is published of it."""

    private: Any
    algorithm: str
    public: dict[str, Any]


def new_key(kid: str, algorithm: str = "ES256") -> Key:
    """A fresh key."""
    if algorithm.startswith("RS"):
        private: Any = rsa.generate_private_key(65537, 2048)
    else:
        private = (
            ed25519.Ed25519PrivateKey.generate()
            if algorithm == "EdDSA"
            else ec.generate_private_key(ec.SECP256R1())
        )
    by_name: Any = jwt.get_algorithm_by_name(algorithm)
    public = json.loads(by_name.to_jwk(private.public_key()))
    return Key(private, algorithm, public | {"kid": kid, "use": "sig", "alg": algorithm})


@dataclass
class Issuer:
    """What it serves, and how often it was asked."""

    url: str = ""
    keys: list[Key] = field(default_factory=lambda: [new_key("one")])
    asked: list[str] = field(default_factory=list)
    status: int = 200
    keys_body: bytes | None = None
    discovery: dict[str, Any] = field(default_factory=dict)

    def token(self, *, key: Key | None = None, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A good token, but for what is said. A claim that is None is left out."""
        signer = key or self.keys[0]
        said: dict[str, Any] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": int(time.time()) + 600,
        } | claims
        body = {name: value for name, value in said.items() if value is not None}
        named = {"kid": signer.public["kid"]} | (headers or {})
        return jwt.encode(body, signer.private, algorithm=signer.algorithm, headers=named)

    def settings(self, **more: Any) -> dict[str, Any]:
        """It, as an operator writes it."""
        return {"issuer": self.url, "audience": AUDIENCE} | more

    async def _configuration(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        found = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.discovery
        return web.json_response(found, status=self.status)

    async def _keys(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        body = self.keys_body
        if body is None:
            body = json.dumps({"keys": [key.public for key in self.keys]}).encode()
        return web.Response(body=body, status=self.status, content_type="application/json")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Issuer]:
        """Serves until the block is left."""
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._configuration)
        app.router.add_get("/keys", self._keys)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()
