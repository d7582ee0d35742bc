"""Settings of a run: the model, the data, and a list of stages.

A stage says what is frozen, which loss, which optimiser and schedule, where it starts from, and whether to mine first.
VSE++ with fine-tuning is two stages, ConVSE three, AOQ two with mining between.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from vsekit.data.views import ViewSettings
from vsekit.losses import LossSettings
from vsekit.models.querybank import QuerybankSettings
from vsekit.models.settings import ModelSettings
from vsekit.parts import Settings, merged, wrong_fields
from vsekit.training.optimisers import OptimiserSettings
from vsekit.training.optimisers.adam import AdamSettings


class ScheduleSettings(Settings):
    """How the learning rate moves over a stage; in epochs, fractions allowed.

    warm_up: rises linearly from 0 over the first epochs.
    steps, factor: multiplied by `factor` at each of `steps` (Adam 2e-4, ×0.1 after 15 of 30 epochs in VSE++).
    cosine: falls to 0 as half a cosine over the stage, instead of steps.
    """

    warm_up: float = Field(default=0.0, ge=0)
    steps: tuple[float, ...] = ()
    factor: float = Field(default=0.1, gt=0)
    cosine: bool = False

    @model_validator(mode="after")
    def _one_shape(self) -> ScheduleSettings:
        if self.cosine and self.steps:
            raise ValueError("choose either cosine or steps")
        return self


class MineSettings(Settings):
    """Mining the whole training set before a stage, and drawing offline negatives from the lists (AOQ, Sec. 3.2).

    teacher: whose scores: the model as the last stage left it (`previous`), the best snapshot so far, or another run; or a folder
        of lists that `vse mine` made of the same training split, with several runs, or with runs that read other features.
    captions, images: h, the length of the lists of an image and of a caption.
    distribution, ranks: how ranks are drawn; the published sampler ties the two.
    skip_above: leave out likely false negatives: those scoring above the best positive by this margin, or in its words. Others,
        drawn from the whole collection, take their places in the lists.
    """

    teacher: Literal["previous", "best"] | Path = "best"
    captions: int = Field(default=300, ge=1)
    images: int = Field(default=60, ge=1)
    distribution: Literal["uniform", "normal"] = "uniform"
    ranks: Literal["independent", "tied"] = "independent"
    skip_above: float | None = Field(default=None, ge=0)


class AugmentSettings(Settings):
    """What training sees otherwise than it is.

    regions, words: size augmentation (VSE∞): regions dropped, and words masked, replaced or deleted, each with this
        probability.
    flip, crop: of the maps that the tail of an image encoder reads (`cut`): mirrored by chance, and a part of them, whose
        side is at least this share of theirs; see `MapViews`.
    """

    regions: float = Field(default=0.0, ge=0, lt=1)
    words: float = Field(default=0.0, ge=0, lt=1)
    flip: bool = False
    crop: float = Field(default=1.0, gt=0, le=1)


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str | Path) else value


class StageSettings(Settings):
    """One stage of training.

    epochs: an epoch goes over the captions, so each picture is seen as often as it has captions.
    batch_size: of all processes together, which share it out.
    captions: `one_per_picture` draws one caption a picture an epoch instead (order embeddings).
    freeze: parts that stay as they are, by dotted name; `image.encoder[:-2]` is all pieces but the last two.
    rates: learning rate of a part as a multiple of the stage's, by dotted name (`{text.encoder: 0.1}`).
    start: `previous` goes on from where the last stage ended, `best` from the best snapshot so far, `scratch` from new
        weights; or the path of a run or model. What a loss has learned itself goes on as the last stage left it.
    model: changes to the run's model from this stage on; weights with the same name and shape are carried over.
    mine: mine hard negatives first; losses with offline negatives need it.
    teacher: runs whose mean score the loss `distillation` follows; one path, or a list.
    unlabelled: so many training pictures without captions are added to each batch, for the teacher to score.
    chunk: rows that a tower reads at a time, so that a large batch needs the memory of a small one; each chunk is read
        twice. None: the whole batch at once.
    activation_checkpointing: encoders of transformers keep the input of each layer alone and compute the rest of it again in
        the backward pass: a third more time, a fraction of the memory.
    average: decay of a moving average of the weights, 0.999 for example, which is validated and kept in their place; the
        stage itself, and one that starts from `previous`, go on with the weights as they are. None: no average.
    validate_every: epochs between two validations, where they cost much (set similarities); the last epoch has one.
    early_stop: stop after so many epochs without a better validation rsum.
    early_stop_from: not before the end of this epoch: one after the last fall of the rate, for example, which often lifts a
        validation that had stopped rising.
    """

    epochs: int = Field(default=30, ge=1)
    batch_size: int = Field(default=128, ge=1)
    chunk: int | None = Field(default=None, ge=1)
    loss: LossSettings
    captions: Literal["all", "one_per_picture"] = "all"
    optimiser: OptimiserSettings = AdamSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    clip: float | None = Field(default=2.0, gt=0)
    freeze: tuple[str, ...] = ()
    rates: dict[str, float] = {}
    start: Literal["previous", "best", "scratch"] | Path = "previous"
    model: dict[str, Any] = {}
    augment: AugmentSettings = AugmentSettings()
    mine: MineSettings | None = None
    teacher: Annotated[tuple[Path, ...], BeforeValidator(_listed)] | None = Field(default=None, min_length=1)
    unlabelled: int | None = Field(default=None, ge=1)
    activation_checkpointing: bool | None = None
    average: float | None = Field(default=None, gt=0, lt=1)
    validate_every: int = Field(default=1, ge=1)
    early_stop: int | None = Field(default=None, ge=1)
    early_stop_from: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _pictures_to_score(self) -> StageSettings:
        if self.unlabelled and not self.teacher:
            raise ValueError("unlabelled pictures are for a teacher to score; name one: teacher: [runs/one]")
        return self


class StreamSettings(Settings):
    """How shards are streamed; see `stream`.

    buffer: pairs in memory, of which each batch is drawn at random; at least a batch. It holds resized pictures: at 256 px
        some 200 MB for 1,000 pictures, in each process.
    vocabulary: a vocab.json of `vse data vocab`; None: the captions of all shards are read once before training, where the
        text encoder learns its words.
    group: the field of a sample's .json that names its group; None: `group` or `person_id`, else each sample is its own.
    """

    buffer: int = Field(default=2000, ge=1)
    vocabulary: Path | None = None
    group: str | None = None


class DataSettings(Settings):
    """Which part of the collection trains and selects, and how pictures are shown.

    view, eval_view: of pictures in training and in evaluation (1C, 10C or RC of the VSE++ paper).
    crops: view RC and a frozen image encoder: so many random crops of each training picture are encoded once, and one of
        them is drawn at every read, instead of a new one.
    restval: fold COCO's `restval` into train (the rV of the papers).
    captions_per_picture: keep the first so many captions of each picture, in every split. Published splits of COCO have
        exactly five; Karpathy's file has six or seven for a few pictures.
    val_pictures: select on the first so many validation pictures; published code takes 1,000 of COCO's 5,000.
    vocabulary: `train` counts words of training captions only; `all` counts every split's, as published code did: a
        leak, here for parity.
    stream: how shards are streamed, where they are.
    """

    train: str = "train"
    val: str = "val"
    view: ViewSettings = ViewSettings.model_validate("1C")
    eval_view: ViewSettings = ViewSettings.model_validate("1C")
    crops: int | None = Field(default=None, ge=2)
    restval: bool = False
    captions_per_picture: int | None = Field(default=None, ge=1)
    val_pictures: int | None = Field(default=None, ge=1)
    vocabulary: Literal["train", "all"] = "train"
    stream: StreamSettings | None = None

    @model_validator(mode="after")
    def _views_fit(self) -> DataSettings:
        if not self.eval_view.deterministic:
            raise ValueError("eval_view draws random crops, so no measurement would repeat; choose 1C or 10C")
        if self.crops and self.view.deterministic:
            raise ValueError(f"crops keeps random crops, and those of view {self.view.kind} are fixed; choose RC")
        return self


def _without_none(stages: Any) -> Any:
    return {k: v for k, v in stages.items() if v is not None} if isinstance(stages, Mapping) else stages


class RunSettings(Settings):
    """Everything that makes a run; `config.yaml` in the run folder holds it complete.

    stages: by name, in order; a name with null in place of a stage is no stage.
    querybank: training pictures and captions kept with the model, to lower the scores of items that are near to everything.
    """

    seed: int = Field(default=0, ge=0, lt=2**63)
    model: ModelSettings
    data: DataSettings = DataSettings()
    stages: Annotated[dict[str, StageSettings], BeforeValidator(_without_none)] = Field(min_length=1)
    querybank: QuerybankSettings | None = None

    @model_validator(mode="after")
    def _stages_change_the_model_rightly(self) -> RunSettings:
        for index, (name, stage) in enumerate(self.stages.items()):
            try:
                if stage.model:
                    self.model_in(index)
            except ValidationError as error:
                raise ValueError("; ".join(wrong_fields(error, f"stages.{name}.model"))) from None
        return self

    @model_validator(mode="after")
    def _bank_of_vectors(self) -> RunSettings:
        similarity = self.model_in(len(self.stages) - 1).similarity if self.querybank else None
        if similarity and similarity.build().on_sets:
            raise ValueError(f"querybank keeps one vector an item, but similarity '{similarity.kind}' compares sets")
        return self

    def model_in(self, stage: int) -> ModelSettings:
        """The run's model with the changes of all stages up to this one."""
        settings = self.model.model_dump(mode="json")
        for changes in list(self.stages.values())[: stage + 1]:
            settings = merged(settings, changes.model)
        return ModelSettings.model_validate(settings)
