from __future__ import annotations

import pytest

from vsekit.recipes import find, names, rows
from vsekit.recipes.describe import description, search


def ids(*words, **options):
    return {row.id for row in search(words, **options)}


def test_every_row_has_a_line_that_names_its_method():
    for row in rows():
        line = description(row)
        assert "\n" not in line
        assert row.method in line
        assert len(line) > len(row.method) + 10


def test_a_description_says_what_the_settings_say():
    assert description(find("vsepp:2.1")) == (
        "VSE0 1C: pictures by timm vision vgg19.tv_in1k, words by gru, inner product similarity, all negatives (sum of hinges)"
    )
    assert "hard negatives (max of hinges)" in description(find("vsepp:1.6"))
    assert "efficientnet lite 2" in description(find("flickr8k:bow"))
    assert "bag of words" in description(find("flickr8k:bow"))
    assert description(find("flickr8k:best-frozen")).endswith(
        "gru-large averaged; contrastive (InfoNCE) or adaptive objective (AdOpt)"
    )


@pytest.mark.parametrize("recipe", names())
def test_the_name_of_a_recipe_means_its_rows(recipe):
    assert ids(recipe) == {row.id for row in rows(recipe)} == ids(recipe=recipe)


def test_words_find_rows_by_loss_method_and_title_whatever_their_case():
    hard = ids("hard", "negatives")
    assert {"vsepp:1.11", "aoq:1.adapoffquin-scan-1k"} <= hard
    assert "flickr8k:bow" not in hard
    assert ids("HARD negatives") == hard
    assert ids("bag", "of", "words", collection="flickr8k") >= {"flickr8k:bow", "flickr8k:bow-crops"}
    assert ids("vse0", recipe="vsepp") == {row.id for row in rows("vsepp") if "VSE0" in row.method}
    assert ids("1.11") == {"vsepp:1.11", "vsepp:1.14"}  # the other has the model of row 1.11
    assert ids("nonsense") == set()


def test_a_dataset_means_its_validation_rows_too():
    found = ids(collection="flickr30k")
    assert found == {row.id for row in rows() if row.dataset.startswith("flickr30k")}
    assert "dual_path:5.random" in found
