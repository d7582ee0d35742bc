"""Claims at convergence on Flickr8k: longer runs at the papers' own settings; the plan is studies/converged.md.

    python -m studies.converged --data DATA [RUN …] [--work runs/converged] [--workers 1] [--detector centernet.json]

The matrix is studies/converged.yaml; finished runs are skipped and interrupted ones go on. Each run writes
studies/results/converged/RUN.SEED.json.
"""

from __future__ import annotations

from studies.flickr8k import main

if __name__ == "__main__":
    main("converged", __doc__)
