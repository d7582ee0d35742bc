"""Studies: matrices of runs whose results are committed as JSON and rendered into docs/."""
