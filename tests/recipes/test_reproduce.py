"""Rows run for real on a tiny collection of features, shrunk by the assignments the command line calls --set."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.training.conftest import write_precomputed
from typer.testing import CliRunner

from vsekit import recipes
from vsekit.cli import app
from vsekit.cli import evaluate as _evaluates  # noqa: F401
from vsekit.cli import reproduce as _reproduces  # noqa: F401
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.evaluation.meeting import RunsOnData, embedded, members_of
from vsekit.models.model import load_model
from vsekit.recipes import datasets
from vsekit.recipes.plan import Plan, Run
from vsekit.recipes.reproduce import WAYS, reproduce
from vsekit.training.run import read_metrics

PLAIN = "vsepp:3.11"
SMALL_TEXT = [
    "model.dim=12",
    "model.text.encoder.dim=12",
    "model.text.encoder.word_dim=8",
    "model.text.encoder.min_count=1",
]
SMALL_VSEPP = [
    *SMALL_TEXT,
    "model.image.encoder={kind: precomputed}",
    "stages.fixed.epochs=1",
    "stages.fixed.batch_size=12",
]
SMALL_VSRN = [
    *SMALL_TEXT,
    "model.image.pooling.layers=1",
    "model.caption_branch={hidden: 8, word_dim: 8}",
    "stages.first.epochs=1",
]


def add_regions(folder: Path) -> Path:
    """The same collection with three regions a picture."""
    for file in folder.glob("*_ims.npy"):
        array = np.load(file)
        np.save(file, np.stack([array, -array, array**2], axis=1))
    return folder


def doubled(folder: Path, copy: Path) -> Path:
    """The same collection with features twice as large."""
    shutil.copytree(folder, copy)
    for file in copy.glob("*_ims.npy"):
        np.save(file, 2 * np.load(file))
    return copy


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = write_precomputed(tmp_path / "data")
    for file in folder.glob("*_ims.npy"):
        np.save(file, np.load(file)[::2])  # one row a picture: equal rows would tie
    return folder


def stages_of(run: Path) -> list[str]:
    return [line["stage"] for line in read_metrics(run) if line["event"] == "validation"]


def hits_at(scores: np.ndarray, own: np.ndarray, k: int) -> float:
    """Share of rows that have one of their own among the k highest, in percent."""
    best = np.argsort(-scores, axis=1)[:, :k]
    return 100 * float(np.mean([own[row, found].any() for row, found in enumerate(best)]))


def test_a_row_is_trained_measured_and_put_beside_the_published_numbers(data: Path, tmp_path: Path) -> None:
    (result,) = reproduce([PLAIN], data, tmp_path / "runs", sets=SMALL_VSEPP)
    assert (tmp_path / "runs/vsepp/3.11/model/model.safetensors").is_file()
    test = read(data).split("test")
    images, captions = embedded(load_model(tmp_path / "runs/vsepp/3.11"), test)
    scores, own = (images @ captions.T).numpy(), test.picture_groups[:, None] == test.caption_groups[None]
    for way, matrix, right in (("i2t", scores, own), ("t2i", scores.T, own.T)):
        measured = result.measured[way]
        assert measured[:3] == pytest.approx([hits_at(matrix, right, k) for k in (1, 5, 10)])
        published = recipes.find(PLAIN).published[way]
        assert result.difference[way] == pytest.approx([m - p for m, p in zip(measured, published)])
    first_line, *_ = result.lines()
    assert "flickr30k test" in first_line
    assert result.to_dict()["published"]["i2t"] == [38.6, 64.6, 74.6, 2.0]


def test_the_command_prints_the_same_as_json(data: Path, tmp_path: Path) -> None:
    command = ["reproduce", PLAIN, "--data", str(data), "--out", str(tmp_path), "--json", "--quiet"]
    printed = CliRunner().invoke(app, [*command, *(word for s in SMALL_VSEPP for word in ("--set", s))])
    (result,) = reproduce([PLAIN], data, tmp_path, sets=SMALL_VSEPP)
    assert json.loads(printed.stdout) == json.loads(json.dumps([result.to_dict()]))


def test_a_finished_run_is_not_trained_again(data: Path, tmp_path: Path) -> None:
    (once,) = reproduce([PLAIN], data, tmp_path, sets=SMALL_VSEPP)
    weights = tmp_path / "vsepp/3.11/model/model.safetensors"
    written = weights.stat().st_mtime_ns
    (twice,) = reproduce([PLAIN], data, tmp_path, sets=SMALL_VSEPP)
    assert weights.stat().st_mtime_ns == written
    assert twice.measured == once.measured


def test_an_ensemble_averages_the_scores_of_its_members(data: Path, tmp_path: Path) -> None:
    (result,) = reproduce(["aoq:2.vsrn"], add_regions(data), tmp_path, sets=SMALL_VSRN)
    assert [run.name for run in result.runs[0]] == ["flickr30k.vsrn-seed0", "flickr30k.vsrn-seed1"]
    test = read(data).split("test")
    both = [images @ captions.T for images, captions in (embedded(load_model(run), test) for run in result.runs[0])]
    assert not np.allclose(*both)
    by_hand = (both[0] + both[1]).numpy() / 2
    own = test.picture_groups[:, None] == test.caption_groups[None]
    assert result.measured["i2t"][:3] == pytest.approx([hits_at(by_hand, own, k) for k in (1, 5, 10)])
    assert result.measured["t2i"][:3] == pytest.approx([hits_at(by_hand.T, own.T, k) for k in (1, 5, 10)])


def test_the_average_of_an_ensemble_is_a_model_to_be_used(data: Path, tmp_path: Path) -> None:
    row, test = "aoq:2.vsrn", read(add_regions(data)).split("test")
    (result,) = reproduce([row], data, tmp_path, sets=SMALL_VSRN)
    assert result.model == tmp_path / "aoq/2.vsrn/ensemble.json"
    assert result.lines()[-1] == f"The model is {result.model}."
    for named in (result.model, result.model.parent):  # the file, or its folder
        command = ["evaluate", str(named), "--data", str(data), "--split", "test", "--json", "--quiet"]
        printed = CliRunner().invoke(app, command)
        assert json.loads(printed.stdout)["rsum"] == pytest.approx(result.measured["rsum"][0])
        assert RunsOnData([named], test).name == "2.vsrn"
    shutil.move(tmp_path / "aoq", tmp_path / "moved")
    members = members_of(tmp_path / "moved/2.vsrn")
    assert [Path(member).resolve() for member in members] == [tmp_path / "moved" / run.name for run in result.runs[0]]
    again = Plan.of(recipes.find(row), tmp_path, ["seed=5"])
    assert again.folder == tmp_path / "aoq/2.vsrn-seed5"


def test_both_rounds_of_aoq_run_with_another_rows_lists(data: Path, tmp_path: Path) -> None:
    lists = ["stages.second.mine.captions=6", "stages.second.mine.images=3"]
    sets = [*SMALL_TEXT, "stages.first.epochs=1", "stages.second.epochs=1", *lists]
    (result,) = reproduce(["aoq:flickr30k.adapoffquin-bfan-prob"], add_regions(data), tmp_path, sets=sets)
    assert [run.name for run in result.runs[0]] == ["flickr30k.adapoffquin-bfan-prob"]
    assert stages_of(tmp_path / "aoq/flickr30k.vsrn-seed0") == ["first"]
    assert stages_of(result.runs[0][0]) == ["second"]
    (vsrn,) = reproduce(["aoq:2.adapoffquin-vsrn"], data, tmp_path, sets=sets)
    assert stages_of(vsrn.runs[0][0]) == ["first", "second"]


def test_both_stages_of_dual_path_run(data: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("dog 1 0 0 0 0 0 0 1\ncat 0 1 0 0 0 0 1 0\n")
    sets = [
        *("model.dim=16", "model.image.encoder={kind: precomputed}", "model.image.head.hidden=16"),
        *("model.text.head.hidden=16", "model.text.encoder.dim=32", "model.text.encoder.word_dim=8"),
        *(f"model.text.encoder.word_vectors={vectors}", "stages.stage1.epochs=1", "stages.stage2.epochs=1"),
    ]
    (result,) = reproduce(["dual_path:1.resnet50-stage2-code"], data, tmp_path / "runs", sets=sets)
    assert stages_of(result.runs[0][0]) == ["stage1", "stage2"]


def test_a_row_is_measured_with_as_many_captions_as_it_keeps(data: Path, tmp_path: Path) -> None:
    """Four captions a picture are read; the row keeps the first."""
    sets = [*SMALL_VSEPP, "data={captions_per_picture: 1, val_pictures: 3}"]
    (result,) = reproduce([PLAIN], data, tmp_path, sets=sets)
    (all_of_them,) = reproduce([PLAIN], data, tmp_path / "all", sets=SMALL_VSEPP)
    assert result.metrics[0].n_captions == result.metrics[0].n_images
    assert all_of_them.metrics[0].n_captions == 4 * all_of_them.metrics[0].n_images


def test_repetitions_give_mean_and_spread(data: Path, tmp_path: Path) -> None:
    (result,) = reproduce([PLAIN], data, tmp_path, sets=SMALL_VSEPP, seeds=2)
    r1 = [metrics.i2t["r1"] for metrics in result.metrics]
    assert [run.name for (run,) in result.runs] == ["3.11", "3.11-seed100"]
    assert result.measured["i2t"][0] == pytest.approx(sum(r1) / 2)
    assert result.spread is not None
    assert result.spread["i2t"][0] == pytest.approx(abs(r1[0] - r1[1]) / 2**0.5)


def test_rows_that_share_a_model_share_the_run(tmp_path: Path) -> None:
    def folders(name: str) -> list[Path]:
        return [run.folder for run in Plan.of(recipes.find(name), tmp_path, []).runs()]

    assert folders("vsepp:1.13") == folders("vsepp:1.9") == [tmp_path / "vsepp/1.9"]
    assert folders("aoq:1.adapoffquin-vsrn-5k") == folders("aoq:1.adapoffquin-vsrn-1k")
    assert folders("dual_path:5.random") != folders("dual_path:5.word2vec")


def test_a_seed_of_ones_own_moves_every_member(tmp_path: Path) -> None:
    plan = Plan.of(recipes.find("aoq:2.vsrn"), tmp_path, ["seed=7"])
    assert [run.settings.seed for run in plan.runs()] == [7, 8]
    assert [run.folder.name for run in plan.runs()] == ["flickr30k.vsrn-seed0-seed7", "flickr30k.vsrn-seed1-seed8"]


def test_a_teacher_is_trained_first_and_found_where_it_is(tmp_path: Path) -> None:
    (plan,) = [
        Plan.of(recipes.find("aoq:2.adapoffquin-bfan"), tmp_path, ["stages.second.epochs=1", "stages.first=null"])
    ]
    assert [run.folder.name for run in plan.runs()] == [
        *("flickr30k.vsrn-seed0", "flickr30k.adapoffquin-bfan-equal"),
        *("flickr30k.vsrn-seed0", "flickr30k.adapoffquin-bfan-prob"),
    ]
    for member in plan.members:
        mine = member.settings.stages["second"].mine
        assert mine is not None
        assert mine.teacher == tmp_path / "aoq/flickr30k.vsrn-seed0"
        assert "first" in member.before[0].settings.stages


def test_an_ensemble_as_the_teacher_of_a_distillation_means_its_members_trained_first(tmp_path: Path) -> None:
    sets = ["stages.heads.teacher=[runs/flickr8k/best-clean, elsewhere/mine]"]
    run = Run.of(recipes.find("flickr8k:bow"), tmp_path, sets)
    names = recipes.find("flickr8k:best-clean").ensemble
    assert [before.row.name for before in run.before] == names
    folders = [tmp_path / "flickr8k" / name for name in names]
    assert run.settings.stages["heads"].teacher == (*folders, Path("elsewhere/mine"))


def test_a_teacher_of_ones_own_stays(tmp_path: Path) -> None:
    row = recipes.find("aoq:flickr30k.adapoffquin-bfan-prob")
    run = Run.of(row, tmp_path, ["stages.second.mine.teacher=elsewhere/run"])
    assert run.before == []
    assert str(run.settings.stages["second"].mine.teacher) == "elsewhere/run"  # type: ignore[union-attr]


def test_without_data_the_row_says_what_it_needs_and_how_to_lay_it_out(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dataset_flickr30k\.json.*flickr30k-images"):
        reproduce([PLAIN], None, tmp_path)
    with pytest.raises(UserError, match=r"reid_raw\.json.*GoogleNews"):
        reproduce(["dual_path:7.resnet50-stage2"], tmp_path / "nowhere", tmp_path)


@pytest.mark.parametrize(
    ("row", "sets", "what"),
    [
        ("vsepp:3.13", [], "reads pictures, and this collection has features only"),
        ("aoq:flickr30k.vsrn-seed0", [], "reads sets of features"),
        ("dual_path:1.resnet50-stage1", ["model.image.encoder={kind: precomputed}"], "no word vectors"),
        ("aoq:coco.vsrn-seed0", ["model.image.pooling=single", "model.caption_branch=null"], "ranks 1000 pictures"),
        (
            "dual_path:7.resnet50-stage1",
            ["model.image.encoder={kind: precomputed}", "model.text.encoder.word_vectors=given.txt"],
            "a person of its own",
        ),
    ],
)
def test_data_that_lack_something_are_refused_before_training(
    data: Path, tmp_path: Path, row: str, sets: list[str], what: str
) -> None:
    with pytest.raises(UserError, match=what) as error:
        reproduce([row], data, tmp_path / "runs", sets=sets)
    assert f"{row} needs" in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_an_assignment_to_a_stage_that_no_row_has_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"stages\.main\.epochs(.|\n)*fixed"):
        reproduce([PLAIN], data, tmp_path, sets=[*SMALL_VSEPP, "stages.main.epochs=1"])
    with pytest.raises(UserError, match="did you mean 'fixed'"):
        reproduce([PLAIN], data, tmp_path, sets=[*SMALL_VSEPP, "stages.fixd.epochs=1"])


def test_rows_of_two_datasets_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one dataset at a time"):
        reproduce([PLAIN, "vsepp:1.7"], data, tmp_path)


def test_the_validation_split_and_all_of_cocos_test_are_measured_where_the_table_has_them() -> None:
    coco = {"train": 1, "val": 1, "test": 1, "testall": 1}
    assert datasets.split(recipes.find("dual_path:2.full"), {"train": 1, "val": 1, "test": 1}) == "val"
    assert datasets.split(recipes.find("aoq:1.vsrn-5k"), coco) == "testall"
    assert datasets.split(recipes.find("vsepp:1.6"), coco) == "test"


def test_an_ensemble_over_several_forms_reads_each_from_its_own_collection(data: Path, tmp_path: Path) -> None:
    regions = add_regions(data)
    grid = doubled(regions, tmp_path / "grid")
    sets = [*SMALL_TEXT, "stages.main.epochs=1"]
    forms = {"regions": regions, "grid": grid}
    (result,) = reproduce(["vse_2ad:1.bigru-rg-flickr30k"], forms, tmp_path / "runs", sets=sets)
    tests = [read(folder).split("test") for folder in forms.values()]
    first, second = (embedded(load_model(run), test) for run, test in zip(result.runs[0], tests))
    by_hand = ((first[0] @ first[1].T + second[0] @ second[1].T) / 2).numpy()
    own = tests[0].picture_groups[:, None] == tests[0].caption_groups[None]
    assert result.measured["i2t"][:3] == pytest.approx([hits_at(by_hand, own, k) for k in (1, 5, 10)])
    assert result.difference["rsum"] == pytest.approx(
        [sum(x for way in WAYS for x in result.measured[way][:3]) - 520.2]
    )
    with pytest.raises(UserError, match="no grid given"):
        reproduce(["vse_2ad:1.bigru-rg-flickr30k"], {"regions": regions}, tmp_path / "runs", sets=sets)
    captions = grid / "test_caps.txt"
    captions.write_text("\n".join(reversed(captions.read_text().splitlines())) + "\n")
    with pytest.raises(UserError, match="another order"):
        reproduce(["vse_2ad:1.bigru-rg-flickr30k"], forms, tmp_path / "runs", sets=sets)


def test_every_row_says_what_it_needs() -> None:
    for row in recipes.rows():
        assert datasets.explain(row).startswith(f"{row.id} needs ")
    assert "--data regions=DIR --data grid=DIR" in datasets.explain(recipes.find("vse_2ad:1.bigru-rg-coco"))


@pytest.mark.parametrize("page", ["vsepp", "dual_path", "aoq"])
def test_a_papers_page_names_only_files_and_rows_that_exist(page: str) -> None:
    root = Path(__file__).parents[2]
    known = {row.name for row in recipes.rows(page)}
    rows = [line.split("|")[1:-1] for line in (root / f"docs/papers/{page}.md").read_text().splitlines()]
    table = [row for row in rows if len(row) == 4][2:]
    assert table
    for _, code, tests, names in table:
        for folder, cell in ((root / "src/vsekit", code), (root / "tests", tests)):
            assert all((folder / file).is_file() for file in re.findall(r"`([\w/]+\.py)`", cell)), cell
        named = set(re.findall(r"[\w.-]*\w+\.[\w.-]+", names))
        assert named <= known, named - known
