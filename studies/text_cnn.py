"""What dual-path's text CNN needs to learn: single changes on generated scenes.

    vse data scenes --train 3000 --val 300 --test 300 --out scenes
    python -m studies.text_cnn --data scenes [RUN …] [--work runs/text_cnn] [--workers 1]

The matrix is studies/text_cnn.yaml; finished runs are skipped and interrupted ones go on. Each run writes
studies/results/text_cnn/RUN.SEED.json, which docs/study.md shows.
"""

from __future__ import annotations

from studies.flickr8k import main

if __name__ == "__main__":
    main("text_cnn", __doc__)
