"""Policies as one file that an OPA server loads by itself, for servers that get theirs from bundles.

The same text as is put on a server (`namespaces.py`), and `data.callgate.main.decision` in front of it.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile

from .bundle import Bundle
from .namespaces import namespaced


def opa_bundle(bundle: Bundle) -> bytes:
    """A gzipped tar with the policies, their data and a manifest with the revision. Equal bundles give equal bytes."""
    space = namespaced(bundle)
    entry = f"package callgate.main\n\ndecision := data.{space.name}.decision\n"
    files = {
        ".manifest": json.dumps({"revision": bundle.revision, "roots": ["callgate/main", space.name]}),
        "callgate.rego": entry,
        "policies.rego": space.text,
        "data.json": json.dumps({space.name: {"rules": space.rules}}, sort_keys=True),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(f"/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)
