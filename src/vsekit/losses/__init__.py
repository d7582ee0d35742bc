"""The losses of the five papers. Each reads a score matrix and who belongs together; see `base` for the contract."""

from __future__ import annotations

from typing import Annotated

from vsekit.losses.adaptive_objective import AdaptiveObjectiveSettings
from vsekit.losses.adaptive_offline_quintuplet import AdaptiveOfflineQuintupletSettings
from vsekit.losses.base import Loss, LossContext, LossInputs, OfflineScores
from vsekit.losses.curriculum import SumToMaxSettings
from vsekit.losses.info_nce import InfoNCESettings
from vsekit.losses.instance import InstanceSettings
from vsekit.losses.max_of_hinges import MaxOfHingesSettings
from vsekit.losses.max_of_negatives import MaxOfNegativesSettings
from vsekit.losses.mvn import MVNSettings
from vsekit.losses.offline_quintuplet import OfflineQuintupletSettings
from vsekit.losses.offline_triplet import OfflineTripletSettings
from vsekit.losses.quadruple_ranking import QuadrupleRankingSettings
from vsekit.losses.sum_of_hinges import SumOfHingesSettings
from vsekit.losses.switch import SwitchSettings
from vsekit.losses.weighted_sum import Term, WeightedSumSettings
from vsekit.parts import ONE_OF

LossSettings = Annotated[
    SumOfHingesSettings
    | MaxOfHingesSettings
    | SumToMaxSettings
    | InfoNCESettings
    | MaxOfNegativesSettings
    | MVNSettings
    | InstanceSettings
    | QuadrupleRankingSettings
    | WeightedSumSettings
    | SwitchSettings
    | OfflineTripletSettings
    | OfflineQuintupletSettings
    | AdaptiveOfflineQuintupletSettings
    | AdaptiveObjectiveSettings,
    *ONE_OF,
]

# A weighted sum and a switch hold losses of any kind, known only now.
Term.model_rebuild(_types_namespace={"LossSettings": LossSettings})
WeightedSumSettings.model_rebuild()
SwitchSettings.model_rebuild(_types_namespace={"LossSettings": LossSettings})

__all__ = ["Loss", "LossContext", "LossInputs", "LossSettings", "OfflineScores"]
