PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SRC := src tests benchmarks docs

.PHONY: run test check format clean

run: $(VENV)/.installed
	$(BIN)/nodewise train pubmed

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.installed
	$(BIN)/ruff format --check $(SRC)
	$(BIN)/ruff check $(SRC)
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff format $(SRC)
	$(BIN)/ruff check --fix $(SRC)

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
