"""docs/walks.md, walked: `python -m tools.walks`."""
