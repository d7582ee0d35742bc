from __future__ import annotations

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.report.conftest import Trained
from typer.testing import CliRunner

from vsekit.cli import app
from vsekit.cli import audit as _audit  # noqa: F401  (registers the command)
from vsekit.cli import report as _report  # noqa: F401
from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.features.extraction import extract
from vsekit.models.model import load_model
from vsekit.report import run as module
from vsekit.report.run import run_report, write_run_report
from vsekit.report.run_page import run_page

VOID = {"meta", "img", "polyline", "polygon", "circle", "line", "rect", "br"}


class Checked(HTMLParser):
    """Reads a page; fails on anything from elsewhere, on scripts, and on tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == ["html"] or self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert name not in ("src", "href") or (value or "").startswith("data:image/")
            assert not name.startswith("on")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_run_on_features_alone_gets_a_whole_page_with_names_for_pictures(features_run: Trained) -> None:
    pairs = read(features_run.data).split("test")
    report = write_run_report(features_run.run, pairs)
    html = (features_run.run / "report.html").read_text()
    page = Checked(html)
    titles = (
        "Results",
        "Training",
        "Pictures for words",
        "Words for pictures",
        "Measures of the common space",
        "Settings",
    )
    assert all(title in page.text for title in titles)
    assert pairs.pictures[report.texts.right[0].found[0]].id in page.text
    assert page.tags.count("img") == 2  # the two correlations
    assert "http" not in html
    assert f"{report.metrics.t2i['r1']:.1f}" in page.text
    assert report.metrics.ci is not None
    assert report.attention == {}
    assert page.text.count("K, negatives") == 0


def test_a_run_that_attends_shows_pictures_light_and_k_and_trusts_no_caption(attending_run: Trained) -> None:
    report = run_report(attending_run.run, read(attending_run.data).split("test"))
    page = Checked(run_page(report))
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    assert len(report.attention) == len(report.words) == 4
    assert {len(found.weights[0]) for found in report.attention.values()} == {16}  # 4 × 4 cells
    words = sum(len(found.words) for found in report.attention.values())
    assert page.tags.count("img") > words
    assert report.curves is not None
    assert report.curves.k
    assert "K, negatives of each pair" in page.text


def test_all_of_it_is_data_too(attending_run: Trained) -> None:
    data = run_report(attending_run.run, read(attending_run.data).split("test")).to_dict()
    again = json.loads(json.dumps(data, allow_nan=False))
    assert set(again) == {
        *("metrics", "chance", "curves", "overlap", "cross_retrieval", "uniformity", "correlation"),
        *("texts", "images", "confusions", "words", "attention"),
    }


def test_a_model_folder_without_a_run_has_no_curves(features_run: Trained, tmp_path: Path) -> None:
    model = shutil.copytree(features_run.run / "model", tmp_path / "model")
    report = write_run_report(model, read(features_run.data).split("test"), tmp_path / "page.html")
    assert report.curves is None
    assert "Training" not in Checked((tmp_path / "page.html").read_text()).text


def test_boxes_of_stored_regions_are_drawn_instead_of_a_grid(attending_run: Trained, tmp_path: Path) -> None:
    pairs = read(attending_run.data).split("test")
    model = load_model(attending_run.run)
    spec = model.settings.image.encoder.model_dump(mode="json")
    store = extract(model.image.encoder, spec, pairs.pictures, model.view, tmp_path / "store")
    boxes = np.random.default_rng(0).uniform(size=(6, 16, 4)).astype(np.float32)
    np.save(tmp_path / "store" / "boxes.npy", boxes)
    report = run_report(attending_run.run, store.attach(pairs), store=store)
    for (picture, _), found in report.attention.items():
        np.testing.assert_allclose(found.boxes, boxes[picture])


def test_a_split_too_large_for_memory_is_sampled_and_the_page_says_so(
    features_run: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SCORES", 200)  # of 18 × 36
    report = run_report(features_run.run, read(features_run.data).split("test"))
    assert len(report.pairs.pictures) * len(report.pairs.captions) <= 200
    assert "evenly spread over 18" in run_page(report)


def test_one_group_alone_can_not_be_measured(features_run: Trained) -> None:
    pairs = read(features_run.data).split("test").take([0])
    with pytest.raises(UserError, match="fewer than two groups"):
        run_report(features_run.run, pairs)


def test_an_encoder_that_can_not_be_had_leaves_the_correlation_out_and_says_why(
    attending_run: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UserError("no hub here")

    monkeypatch.setattr(module, "_untrained", fail)
    report = run_report(attending_run.run, read(attending_run.data).split("test"))
    assert report.correlation is None
    assert "Not drawn: no hub here" in run_page(report)


def test_a_broken_picture_is_shown_by_name(features_run: Trained, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    pairs = read(features_run.data).split("test")
    broken = replace(pairs, pictures=[replace(p, path=tmp_path / "broken.jpg") for p in pairs.pictures])
    assert "can't be read" in Checked(run_page(run_report(features_run.run, broken))).text


def test_vse_report_writes_the_page_and_prints_data(features_run: Trained, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    options = [str(features_run.run), "--data", str(features_run.data), "--out", str(out), "--json", "--quiet"]
    result = CliRunner().invoke(app, ["report", *options], catch_exceptions=False)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["metrics"]["n_images"] == 18
    Checked(out.read_text())


def test_vse_audit_finds_pictures_whose_captions_were_exchanged(features_run: Trained, tmp_path: Path) -> None:
    data = shutil.copytree(features_run.data, tmp_path / "data")
    lines = (data / "train_caps.txt").read_text().splitlines()
    lines[6:8], lines[40:42] = lines[40:42], lines[6:8]  # of pictures 3 and 20
    (data / "train_caps.txt").write_text("\n".join(lines) + "\n")
    pictures = read(data).split("train").pictures
    out = tmp_path / "audit.html"
    options = [str(features_run.run), "--data", str(data), "--out", str(out), "--quiet"]
    result = CliRunner().invoke(app, ["audit", *options, "--json", "--top", "3"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["counts"]["duplicate_captions"] == 0
    suspects = [pair["picture"] for pair in found["pairs"] if pair["reason"] == "false-negative"]
    assert set(suspects[:2]) == {pictures[3].id, pictures[20].id}
    Checked(out.read_text())
    assert f"Look at {out}" in CliRunner().invoke(app, ["audit", *options], catch_exceptions=False).stdout
