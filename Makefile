# make demo | test | test-all | lint | mutants | soak | bench | study | install | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-all lint mutants soak bench study clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "vsekit needs Python 3.11 or newer; say make PYTHON=python3.12, for example")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/vse demo

# PYTEST_ADDOPTS adds options, for example --junitxml=FILE. The tests of a file stay together: what they share is made once.
test: install
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'not slow'

test-all: install
	$(BIN)/pytest -n 2

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.weaknesses

# A random sample of small faults, each put to the tests that reach it; under an hour on two cores, and it can be stopped
# and started again. make mutants COUNT=50 SEED=1 ONLY=training/ for some of them.
mutants: install
	$(BIN)/python -m tools.mutants $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

# Mixed traffic on a server while its index is written; prints errors and how memory grows. make soak MINUTES=60 SEED=1
soak: install
	$(BIN)/python -m tools.soak --write $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

bench: install
	$(BIN)/python -m benchmarks

# Finished runs are skipped; remove their file in studies/results to run one again. make study DATA=flickr8k runs on
# photographs too, with WORDS=glove.100d.txt also what starts from word vectors.
study: install
	$(BIN)/python -m studies.scenes
	$(BIN)/python -m studies.flickr8k $(if $(DATA),--data $(DATA) $(if $(WORDS),--word-vectors $(WORDS)),--render)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .mutants
