"""What the HTTP API takes and gives; the OpenAPI description is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, WithJsonSchema
from pydantic_core import PydanticCustomError


def _number(value: Any) -> Any:
    """Refuses what pydantic would make a number of: "5" and true are none."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


#: Hits in an answer, where nobody says how many.
TOP = 60
Whole = Annotated[int, BeforeValidator(_number)]
Meta = dict[str, str | int | float | bool]
#: A name and how often it is there; described without prefixItems, which few generators of clients know.
_COUNTED = {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 2, "maxItems": 2}
Counted = Annotated[tuple[str, int], WithJsonSchema(_COUNTED)]


class ItemOut(BaseModel):
    """A picture or a caption. thumbnail, picture_url: paths on this server; None where there is no file. stack: where
    stacks were asked for, the item before it that it is a copy of, or was taken in the same moment as."""

    id: str
    kind: Literal["image", "caption"]
    picture: str
    name: str
    text: str = ""
    width: int = 0
    height: int = 0
    meta: Meta = {}
    captions: list[str] = []
    thumbnail: str | None = None
    picture_url: str | None = None
    stack: str | None = None


class SaidOut(BaseModel):
    """Words of the query that a hit holds. where: "file name", "caption", "text in the picture" …"""

    where: str
    words: list[str]


class HitOut(ItemOut):
    """standing: share of the model's known negatives that score lower, 0…1. match: the same in a word; at least likely where
    its words were asked for. said: the words it was found by."""

    score: float
    standing: float | None = None
    match: Literal["strong", "likely", "weak", "none"] | None = None
    said: list[SaidOut] = []


class Asked(BaseModel):
    """What a client sends; a key that is not known is a mistake, not to be passed over."""

    model_config = ConfigDict(extra="forbid")


class SearchIn(Asked):
    """query: words, of which those in quotes are exact; or arithmetic over quoted words and item ids: "dog" + item:ID - "water"."""

    query: str = Field(max_length=2000)
    top: Whole = Field(default=TOP, ge=1)
    offset: Whole = Field(default=0, ge=0)
    kind: Literal["image", "caption"] = "image"
    filter: str | None = Field(default=None, max_length=2000)
    rerank: Whole = Field(default=0, ge=0, description="How many of the best the re-ranking model reads again.")
    stack: StrictBool = Field(
        default=False, description="Whether to say which hits are copies, or shots of one moment."
    )


class Timing(BaseModel):
    """Milliseconds."""

    encode: float
    search: float
    total: float


class SearchOut(BaseModel):
    """verdict: None, or a sentence such as "Nothing here matches." more: whether there are hits beyond these."""

    hits: list[HitOut]
    verdict: str | None = None
    more: bool = False
    timing: Timing


class ItemsOut(BaseModel):
    """Pictures, the newest first. after: what to send to go on behind these; None where there are no more."""

    items: list[ItemOut]
    after: str | None = None


class FacetsOut(BaseModel):
    """How many pictures there are: months ("2021-07", the newest first), folders (paths with "/")."""

    months: list[Counted] = []
    folders: list[Counted] = []


class PlaceOut(BaseModel):
    """Pictures taken within about 10 km. lat, lon: their mean, in degrees. item: the newest of them."""

    lat: float
    lon: float
    count: int
    item: ItemOut


class MarksIn(Asked):
    """What to say of pictures; what is left out stays as it is."""

    ids: list[str] = Field(min_length=1, max_length=1000)
    favourite: StrictBool | None = None
    hidden: StrictBool | None = None


class MarksOut(BaseModel):
    """changed: those that were not so before; marking these the other way takes it back."""

    changed: list[str]


class WordWeight(BaseModel):
    """How much the score falls without this word."""

    word: str
    weight: float


class WhyIn(Asked):
    query: str = Field(max_length=2000)
    id: str


class WhyOut(BaseModel):
    """boxes: for models that compare regions: word → x0, y0, x1, y1 in 0…1 of the picture, with the weight of each."""

    score: float
    words: list[WordWeight]
    boxes: dict[str, list[tuple[float, float, float, float, float]]] = {}


class FieldOut(BaseModel):
    """A field of the metadata, for the page's filters."""

    type: Literal["number", "text", "boolean"]
    count: int
    min: float | None = None
    max: float | None = None
    values: list[tuple[str | int | float | bool, int]] = []


class StatusOut(BaseModel):
    pictures: int
    captions: int
    model: str
    model_fingerprint: str
    dim: int
    store: str
    reranker: str | None = None
    fields: dict[str, FieldOut] = {}
    indexed: str | None = Field(default=None, description="When the index was last brought up to date, ISO 8601.")


class FolderOut(BaseModel):
    """A folder that may be indexed from here, by its number. name: without where it lies."""

    number: int
    name: str
    indexed: bool


class IndexingOut(BaseModel):
    """state: "off" where this server does not index; "idle" where it may be asked to; "current" while it watches and nothing is to
    be done. done, total: of the pictures that are being read. pictures: in the index now. changes: goes up when the index has
    changed. broken: pictures that can't be read. note, error, remedy: in plain words."""

    state: Literal["off", "idle", "starting", "indexing", "current", "failed"]
    done: int = 0
    total: int = 0
    pictures: int = 0
    changes: int = 0
    broken: int = 0
    note: str | None = None
    error: str | None = None
    remedy: str | None = None
    folders: list[FolderOut] = []


class IndexingIn(Asked):
    """folder: the number of an allowed folder; left out, what failed is tried again."""

    folder: Whole | None = Field(default=None, ge=0)


class Problem(BaseModel):
    """Every error: a reason, and a remedy where there is one."""

    error: str
    remedy: str | None = None


class SessionIn(Asked):
    """What the page exchanges for a cookie, so that pictures load in <img> without a token in their address."""

    token: str = Field(max_length=2000)


class Health(BaseModel):
    """status: "ok"; of readiness also "loading", and "unavailable" when the index is gone or its database does not answer."""

    status: Literal["ok", "loading", "unavailable"]
