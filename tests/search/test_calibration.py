from __future__ import annotations

import json
from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from tests.search.memory import CountingModel, MemoryStore

from vsekit.search.calibration import CHANCES, FORMAT, Calibration, calibrate, calibrate_pairs
from vsekit.search.items import Item
from vsekit.search.tables import PRIOR, Table, usual


def normal(queries: int = 200, items: int = 500, seed: int = 0, mean: float = 0.0, sd: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, sd, (queries, items))


def table(scores: np.ndarray) -> Table:
    found = Table.of(scores, np.ones(scores.shape, bool))
    assert found is not None
    return found


def test_the_tail_of_normal_scores_is_that_of_the_normal_distribution() -> None:
    found = table(normal(items=4000))
    for z, share in ((1.0, 0.15866), (2.0, 0.02275), (3.0, 1.35e-3), (4.0, 3.17e-5)):
        assert float(found.log_share_above(np.array([z]))[0]) == pytest.approx(log(share), abs=0.45)


def test_standing_rises_with_the_score_all_the_way() -> None:
    places = np.linspace(-4, 12, 2000)
    share = table(normal() ** 3).log_share_above(places)  # heavy tails
    assert (np.diff(share) <= 0).all()
    assert (np.diff(share[places > 0]) < 0).all()


def test_a_few_negatives_that_belong_together_do_not_raise_the_tail() -> None:
    clean = normal()
    mixed = clean.copy()
    mixed[:, 0] += 8  # one right picture a query: 0.2 %
    at = np.array([4.0])
    assert table(mixed).log_share_above(at) == pytest.approx(table(clean).log_share_above(at), abs=1.0)


def test_scores_that_are_all_alike_leave_room_above() -> None:
    found = table(np.full((20, 20), 0.3))
    assert found.log_share_above(np.array([1.0]))[0] < -100


def test_few_negatives_make_no_table() -> None:
    assert Table.of(normal(3, 10), np.ones((3, 10), bool)) is None


def test_a_small_sample_is_drawn_towards_the_ordinary() -> None:
    assert usual(np.zeros(0), 0.2, 0.1) == (0.2, 0.1)
    mean, _ = usual(np.full(PRIOR, 1.0), 0.0, 0.1)
    assert mean == pytest.approx(0.5)
    scores = normal(1, 100_000)[0]
    assert usual(scores, 5.0, 9.0) == pytest.approx((0, 1), abs=0.02)


def test_what_a_query_finds_is_not_its_usual_score() -> None:
    scores = normal(1, 1000)[0]
    found = np.sort(scores)
    found[700:] += 5  # three pictures in ten are right
    assert usual(found, 0.0, 1.0) == pytest.approx(usual(scores, 0.0, 1.0))


def calibration(found: Table) -> Calibration:
    return Calibration({"format": FORMAT, "tables": {"text-image": vars(found)}})


def judged(found: Table, scores: list[float], n: int) -> tuple[list[float | None], list[str | None]]:
    standings, matches = calibration(found).judge(np.zeros(2), np.array(scores), n, "text", "image")
    return list(standings), list(matches)


def test_the_match_is_the_chance_of_the_best_of_n_unrelated_items() -> None:
    found = table(normal())
    (low, high), _ = judged(found, [0.0, 3.0], 1)
    assert low == pytest.approx(0.5, abs=0.02)
    assert high == pytest.approx(0.99865, abs=0.0005)
    for n in (10, 1000, 100_000):
        z = np.linspace(0, 8, 300)
        standings, matches = judged(found, z.tolist(), n)
        for standing, match in zip(standings, matches):
            chance = 1 - exp(-n * (1 - (standing or 0)))
            called = next((name for name, most in CHANCES.items() if chance <= most), "none")
            assert match == called or abs(chance - CHANCES.get(match, 1)) < 1e-6  # type: ignore[arg-type]


def test_of_queries_that_nothing_fits_as_many_are_called_strong_as_the_chance_says() -> None:
    """The best of 300 unrelated scores: at most a twentieth may be called strong, three tenths likely or strong."""
    found, n = table(normal(seed=1)), 300
    best = normal(4000, n, seed=2).max(1)
    _, matches = judged(found, best.tolist(), n)
    assert matches.count("strong") / 4000 == pytest.approx(CHANCES["strong"], abs=0.03)
    assert (matches.count("strong") + matches.count("likely")) / 4000 == pytest.approx(CHANCES["likely"], abs=0.06)


def test_what_scores_below_nearly_all_right_pairs_is_weak_at_most() -> None:
    scores = normal()
    right = np.zeros(scores.shape, bool)
    right[:, 0] = True
    scores[:, 0] = 20 + 0.1 * scores[:, 0]
    found = Table.of(scores, ~right, right)
    assert found is not None
    assert judged(found, [4.0], 1)[1] == ["weak"]
    assert judged(found, [21.0], 1)[1] == ["strong"]


def test_a_query_that_scores_high_with_everything_is_judged_by_its_own_scores() -> None:
    """Vectors along (1, 0) and a query that leans on the common direction: all its scores are high, none is special."""
    rng = np.random.default_rng(0)
    vectors = np.concatenate([np.full((400, 1), 1.0), 0.1 * rng.normal(size=(400, 7))], axis=1).astype(np.float32)
    store = MemoryStore(8)
    store.write([Item(f"p{i}", "image", picture=f"p{i}") for i in range(400)], vectors)
    high, low = np.eye(8, dtype=np.float32)[0], np.eye(8, dtype=np.float32)[1]
    tables = {"text-image": vars(table(np.stack([vectors @ high + 0.1 * low[0], vectors @ low])))}
    found = Calibration({"format": FORMAT, "tables": tables, "sample": {"image": [f"p{i}" for i in range(400)]}}, store)
    standings, _ = found.judge(low, np.array([0.3], np.float32), 400, "text", "image")
    assert standings[0] is not None
    assert standings[0] > 0.97  # three of its own deviations, though half of all scores are higher


def test_items_of_the_sample_that_are_gone_are_left_out() -> None:
    store = MemoryStore(2)
    store.write([Item("a", "image"), Item("c", "image")], np.eye(2, dtype=np.float32))
    found = Calibration({"format": FORMAT, "tables": {}, "sample": {"image": ["a", "b", "c", "d"]}}, store)
    assert found._sample["image"].tolist() == [[1, 0], [0, 1]]
    none = Calibration({"format": FORMAT, "tables": {}, "sample": {"image": [], "caption": ["b"]}}, store)._sample
    assert [(none[kind].shape, none[kind].dtype) for kind in ("image", "caption")] == 2 * [((0, 2), np.float32)]


def collection(captions: bool = True, n: int = 60) -> MemoryStore:
    """Pictures at random, captions near theirs."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(n, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    store = MemoryStore(64)
    store.write([Item(f"p{i}", "image", picture=f"p{i}") for i in range(n)], vectors)
    if captions:
        near = vectors + 0.05 * rng.normal(size=vectors.shape).astype(np.float32)
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        store.write([Item(f"p{i}#0", "caption", text="x", picture=f"p{i}") for i in range(n)], near)
    return store


def test_an_index_with_captions_is_calibrated_by_pictures_of_other_groups() -> None:
    store = collection()
    written = json.loads(json.dumps(calibrate(store, CountingModel(), sample=100)))
    assert set(written["tables"]) == {"image-image", "text-image", "text-caption", "image-caption"}
    assert {name: t["pairs"] for name, t in written["tables"].items()} == dict.fromkeys(written["tables"], 60 * 59)
    found = Calibration(written, store)
    vector = store.vectors(["p7#0"])[0]
    score = store.vectors(["p7"])[0] @ vector
    assert found.judge(vector, np.array([score]), 60, "text", "image").matches == ["strong"]
    assert found.verdict(vector, np.array([score]), 60, "text", "image") is None


def test_pictures_whose_captions_share_a_telling_word_are_no_known_negatives() -> None:
    store = collection()
    texts = [f"a {'dog' if i % 10 == 0 else f'thing{i}'} outside" for i in range(60)]
    store.update([Item(f"p{i}#0", "caption", text=text, picture=f"p{i}") for i, text in enumerate(texts)])
    tables = calibrate(store, CountingModel(), sample=100)["tables"]  # type: ignore[arg-type]
    assert tables["text-image"]["pairs"] == 60 * 59 - 6 * 5  # "a" and "outside" are everywhere
    assert tables["image-caption"]["pairs"] == 60 * 59 - 6 * 5


def test_pictures_of_one_group_are_no_negatives() -> None:
    store = collection(captions=False, n=40)
    store.update([Item(f"p{i}", "image", picture=f"p{i}", meta={"group": i // 2}) for i in range(40)])
    assert calibrate(store, CountingModel())["tables"]["image-image"]["pairs"] == 40 * 38


def test_an_index_without_captions_is_calibrated_by_sentences_the_model_knows() -> None:
    store, model = collection(captions=False), CountingModel()
    assert "text-image" not in calibrate(store, model)["tables"]  # it knows none of the built-in ones
    model.encode_texts = lambda texts: store.vectors([f"p{i}" for i in range(len(texts))])  # type: ignore[method-assign]
    sentences = [f"a {'dog ' * (i + 1)}" for i in range(30)] + ["a zebra on a unicycle"]
    assert calibrate(store, model, sentences)["tables"]["text-image"]["pairs"] == 30 * 60


def test_an_empty_index_has_no_tables() -> None:
    assert calibrate(MemoryStore(3), CountingModel())["tables"] == {}


def test_nothing_is_judged_without_tables() -> None:
    found = Calibration({})
    assert found.judge(np.zeros(2), np.array([0.3, 0.2]), 5, "text", "image") == ([None, None], [None, None])
    assert found.verdict(np.zeros(2), np.array([0.3]), 5, "text", "image") is None
    assert found.verdict(np.zeros(2), np.zeros(0), 0, "text", "image") == "This index holds no pictures."
    assert found.verdict(np.zeros(2), np.zeros(0), 0, "text", "caption", True) == "No caption passes the filter."


def test_the_verdict_says_that_nothing_matches() -> None:
    found = calibration(table(normal()))
    said = found.verdict(np.zeros(2), np.array([2.0]), 8000, "text", "image")
    assert said == ("Nothing here matches: the best picture scores no higher than an unrelated one would among 8,000.")
    assert found.verdict(np.zeros(2), np.array([8.0]), 8000, "text", "image") is None


def test_a_likely_match_is_never_denied_however_its_signs_look() -> None:
    """Of few items a score is likely that is nothing much among many."""
    found, asked = calibration(table(normal())), (np.zeros(2), np.array([2.0]))
    assert found.judge(*asked, 2, "text", "image").matches == ["strong"]
    assert found.verdict(*asked, 2, "text", "image") is None
    assert found.verdict(*asked, 8000, "text", "image") is not None


class _Bank:
    def owed(self, vectors: np.ndarray, kind: str) -> np.ndarray:
        assert kind == "caption"
        return vectors.sum(1)


def banked() -> CountingModel:
    model = CountingModel()
    model.dim, model.bank, model.has_bank = 2, _Bank(), True  # type: ignore[misc, assignment]
    return model


def test_signs_are_in_the_scale_of_the_index() -> None:
    written = vars(replace(table(normal(mean=1.0, sd=2.0)), centre=1.0, spread=2.0, owed=0.5))
    tables = {"format": FORMAT, "tables": {"text-image": written}}
    vector = np.array([2.0, 0.5, 9.0])  # the last number is not the model's
    found = Calibration(tables, model=banked()).signs(vector, 7.0, 1000, 4)
    assert found == pytest.approx((3.0, 0.0, 1.0, log(5), 3.0))
    without = Calibration(tables).signs(vector, 7.0, 1000, 4)
    assert without is not None
    assert np.isnan(without.known)


def test_what_the_queries_of_a_table_owe_is_kept_with_it() -> None:
    store, model = collection(captions=False), banked()
    model.dim = 64
    vectors = store.vectors([f"p{i}" for i in range(30)])
    model.encode_texts = lambda texts: vectors[: len(texts)]  # type: ignore[method-assign]
    written = calibrate(store, model, [f"a {'dog ' * (i + 1)}" for i in range(30)])
    assert written["tables"]["text-image"]["owed"] == pytest.approx(float(vectors.sum(1).mean()), rel=1e-5)
    own = calibrate(collection(), model, sample=100)["tables"]["text-image"]
    said = collection().vectors([f"p{i}#0" for i in range(60)])
    assert own["owed"] == pytest.approx(float(said.sum(1).mean()), rel=1e-4)


def test_a_sum_of_words_and_pictures_takes_the_more_careful_table() -> None:
    wide, narrow = table(normal(sd=2.0)), table(normal())
    found = Calibration({"format": FORMAT, "tables": {"text-image": vars(narrow), "image-image": vars(wide)}})
    both, careful = (found.judge(np.zeros(2), np.array([3.0]), 1, asked, "image") for asked in ("mixed", "image"))  # type: ignore[arg-type]
    assert both == careful


def test_the_folder_of_a_model_may_bring_a_calibration(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(50, 8))
    groups = np.arange(50)
    written = calibrate_pairs(images, images + 0.01, groups, groups)
    assert written["tables"]["text-image"]["right"]
    (tmp_path / "calibration.json").write_text(json.dumps(written))
    model = CountingModel()
    model.folder = tmp_path
    assert set(Calibration.of(MemoryStore(model.dim), model).tables) == set(written["tables"])  # type: ignore[arg-type]
    own = MemoryStore(8, {"calibration": calibrate(collection(), model)})  # type: ignore[arg-type]
    own.write(list(collection().known.values()), np.zeros((120, 8), np.float32))
    assert Calibration.of(own, model).tables["text-image"].pairs == 60 * 59  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [19, 20])
def test_fewer_than_twenty_captions_tell_nothing(n: int) -> None:
    tables = calibrate(collection(n=n), CountingModel())["tables"]  # type: ignore[arg-type]
    assert ("text-caption" in tables, "image-caption" in tables) == (n == 20, n == 20)
