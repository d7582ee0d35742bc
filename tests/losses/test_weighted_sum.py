from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from vsekit.losses import LossContext, LossSettings
from vsekit.losses.info_nce import InfoNCESettings
from vsekit.losses.instance import InstanceSettings
from vsekit.losses.max_of_hinges import MaxOfHingesSettings

SETTINGS = TypeAdapter(LossSettings)
CONTEXT = LossContext(n_groups=5, dim=4)
GROUPS = torch.tensor([0, 1, 1, 4])


def test_it_is_equation_9_and_logs_each_term(make):
    inputs = make(GROUPS)
    pairs = {"kind": "quadruple_ranking", "pool": 4}  # all of the batch, so nothing is random
    instance = {"kind": "instance", "image_weight": 1, "text_weight": 0.1}
    loss = SETTINGS.validate_python(
        {"kind": "weighted_sum", "terms": [{"weight": 2, "loss": pairs}, {"loss": instance}]}
    ).build(CONTEXT)
    loss.double()
    value, logs = loss(inputs)
    ranking = SETTINGS.validate_python(pairs).build(CONTEXT)(inputs)[0]
    visual, textual = logs["instance.visual"], logs["instance.textual"]
    torch.testing.assert_close(value, 2 * ranking + visual + 0.1 * textual)
    torch.testing.assert_close(logs["quadruple_ranking"], ranking)
    torch.testing.assert_close(logs["instance"], visual + 0.1 * textual)
    assert loss.plateau(4) == pytest.approx(2 * 2 + 1.1 * torch.tensor(5.0).log().item())


def test_sums_nest_and_the_same_loss_may_stand_twice(make):
    inputs = make(GROUPS)
    inner = {"kind": "weighted_sum", "terms": [{"weight": 3, "loss": "max_of_hinges"}]}
    terms = [{"weight": 0.5, "loss": inner}, {"loss": "info_nce"}, {"loss": {"kind": "info_nce", "temperature": 0.5}}]
    value, logs = SETTINGS.validate_python({"kind": "weighted_sum", "terms": terms}).build(CONTEXT)(inputs)
    parts = [MaxOfHingesSettings(), InfoNCESettings(), InfoNCESettings(temperature=0.5)]
    hinges, nce, warm = (settings.build(CONTEXT)(inputs)[0] for settings in parts)
    torch.testing.assert_close(value, 1.5 * hinges + nce + warm)
    assert set(logs) == {"weighted_sum", "weighted_sum.max_of_hinges", "info_nce", "info_nce_2"}


def test_it_needs_what_its_terms_need():
    def build(*kinds):
        terms = [{"loss": kind} for kind in kinds]
        return SETTINGS.validate_python({"kind": "weighted_sum", "terms": terms}).build(CONTEXT)

    plain = build("info_nce")
    assert not any((plain.needs_offline, plain.needs_vectors, plain.needs_symmetric))
    assert build("info_nce", "mvn").needs_symmetric
    assert build("offline_triplet").needs_offline
    assert build("instance", "info_nce").needs_vectors
    sampled = build("info_nce", InstanceSettings(classes="sampled"))
    assert [p.shape for p in sampled.sparse_parameters()] == [(5, 4)]


def test_the_plateau_is_unknown_when_that_of_a_term_is():
    terms = [{"loss": "info_nce"}, {"loss": "adaptive_objective"}]
    assert SETTINGS.validate_python({"kind": "weighted_sum", "terms": terms}).build(CONTEXT).plateau(8) is None


@pytest.mark.parametrize(
    "wrong", [{"terms": []}, {"terms": [{"loss": "no_such"}]}, {"terms": [{"wieght": 1, "loss": "mvn"}]}]
)
def test_wrong_terms_are_refused(wrong):
    with pytest.raises(ValidationError):
        SETTINGS.validate_python({"kind": "weighted_sum", **wrong})
