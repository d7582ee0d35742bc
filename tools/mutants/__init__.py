"""Mutation testing: small faults, one at a time, each put to the tests that reach its line."""
