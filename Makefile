PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SRC := src tests benchmarks docs examples

.PHONY: run demo test check docs format clean

run: $(VENV)/.installed
	$(BIN)/nodewise train pubmed

demo: $(VENV)/.installed
	test -d pubmed-model || $(BIN)/nodewise train pubmed
	$(BIN)/nodewise serve pubmed-model pubmed

# Two processes with one thread each: with two, threads that wait for each other keep the cores busy.
test: check docs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.installed
	$(BIN)/ruff format --check $(SRC)
	$(BIN)/ruff check $(SRC)
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build

format: $(VENV)/.installed
	$(BIN)/ruff format $(SRC)
	$(BIN)/ruff check --fix $(SRC)

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
