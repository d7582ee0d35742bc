"""What every interchangeable part shares: settings that refuse unknown keys, and a set of vectors with a mask.

A part (a loss, a pooling, a similarity, an encoder, a head) is one file that holds a pure function, a thin
`nn.Module` around it, and a `Part` with its settings whose `build(...)` makes the module. The folder's
`__init__` lists the parts in one union; YAML picks one with `kind`, or with the bare name when the defaults do:

    similarity: cosine
    loss: {kind: max_of_hinges, margin: 0.2}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from torch import Tensor


class Settings(BaseModel):
    """Settings that name the field when a key is unknown or a value has the wrong type."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class Part(Settings):
    """Settings of one part. Subclasses narrow `kind` to a `Literal` with their own name as the default."""

    kind: str


def _bare_name(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


#: Metadata for the union of a folder's parts: `Annotated[ASettings | BSettings, *ONE_OF]`.
ONE_OF = (Field(discriminator="kind"), BeforeValidator(_bare_name))


class Sets(NamedTuple):
    """A batch of sets of vectors, padded to the longest.

    vectors: (B, N, d); what stands at padded places is arbitrary and must never matter.
    mask: (B, N) bool, True where there is a vector; every row has at least one.
    """

    vectors: Tensor
    mask: Tensor
