"""What every part of the settings tree is made of: frozen parts and the kinds of their values."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

MIB = 1 << 20
HEADER_NAME = r"^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$"


def _no_truth(value: object) -> object:
    # YAML and JSON have true and false; as a count they are a slip of the pen.
    if isinstance(value, bool):
        raise ValueError("should be a number")  # noqa: TRY004 (pydantic collects only ValueError)
    return value


Count = Annotated[int, BeforeValidator(_no_truth), Field(ge=0)]
Positive = Annotated[int, BeforeValidator(_no_truth), Field(ge=1)]
Seconds = Annotated[float, BeforeValidator(_no_truth), Field(gt=0, allow_inf_nan=False)]
Port = Annotated[int, BeforeValidator(_no_truth), Field(ge=0, le=65535)]
HeaderName = Annotated[str, Field(pattern=HEADER_NAME)]
Broken = Literal["closed", "open"]


def _network(value: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(str(value))
    except ValueError:
        raise ValueError("should be a network such as 10.0.0.0/8, without bits beyond its length") from None


Network = Annotated[ipaddress.IPv4Network | ipaddress.IPv6Network, PlainValidator(_network)]


class Part(BaseModel):
    """A part of the tree: unknown names are an error, nothing changes after loading, no input is echoed."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )
