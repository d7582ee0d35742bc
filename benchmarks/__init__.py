"""Benchmarks: what things cost beside a yardstick measured in the same run. `make bench`, or `python -m benchmarks gru`."""
