# make demo    a daemon on a folder into which votes fall, some of them by bad raters
# make test    lint, format, types and tests
# make docs    the site, in site/index.html
# make soak    kill -9 in pull, push, serve, backup and restore, 50 times each
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint compile clean figures fuzz soak release docs evidence
.DEFAULT_GOAL := test

# The stamps hold the moment of the last installation: pip runs again only when
# pyproject.toml is newer.
$(VENV)/.stamp-dev: pyproject.toml
	@echo "== Setting up $(VENV) (only when pyproject.toml changed)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp-dev
	@echo "== Adding what the benchmarks compare with"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

demo: $(VENV)/.stamp-dev
	@echo "== Demo: a daemon, files that arrive, and what it makes of them"
	@$(BIN)/bbq demo

lint: $(VENV)/.stamp-dev
	@echo "== Lint: ruff check"
	@$(BIN)/ruff check .
	@echo "== Format: ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "== Types: mypy"
	@$(BIN)/mypy

# Compiled code is kept on disk; without this every worker of the tests would compile its own.
compile: $(VENV)/.stamp-dev
	@echo "== Kernels: compiled once, for all workers of the tests"
	@$(BIN)/python -m tests.compiling

test: $(VENV)/.stamp-dev
	@$(MAKE) --no-print-directory -j2 lint compile
	@echo "== Tests: pytest; the first run installs Label Studio, which takes two minutes"
	@$(BIN)/python -m pytest -n auto --no-loadscope-reorder

# The property tests again, with examples that no run has seen before.
fuzz: $(VENV)/.stamp-dev
	@echo "== Property tests with new examples"
	@$(BIN)/python -m pytest -n auto --hypothesis-profile=new-examples \
	  $$(grep -rlE "^from hypothesis import" tests --include="test_*.py")

# The tests that kill -9 each of pull, push, serve, backup and restore, 50 times instead of 5, and
# the daemon 500 times, and 100 times on a table of PostgreSQL: nothing may be lost or doubled, and every store has to be whole.
soak: $(VENV)/.stamp-dev
	@echo "== kill -9, 50 times in each of pull, push, serve, backup and restore"
	@BBQ_TEST_KILL_EACH=50 BBQ_TEST_KILLS=500 $(BIN)/python -m pytest -n 2 --no-loadscope-reorder \
	  tests/live/label_studio/test_kill.py tests/live/test_kill_each.py tests/live/watch/test_kill.py \
	  tests/live/watch/test_database_table.py

bench-%: $(VENV)/.stamp-bench
	@echo "== Benchmark: $*"
	@$(BIN)/python benchmarks/$*.py

# Data of others, read where they are (../shared/data), and docs/evidence.md from what they showed.
# A bar that is missed is written there and does not stop the rest. Half an hour.
EVIDENCE := halves reliability camps wild log_loss more_raters slices
evidence: $(VENV)/.stamp-bench
	@for name in $(EVIDENCE); do \
	  echo "== Evidence: $$name"; $(BIN)/python benchmarks/$$name.py || true; done
	@$(BIN)/python benchmarks/docs.py

# The site in site/, for a folder or a server: open site/index.html. A warning is an error.
$(VENV)/.stamp-docs: $(VENV)/.stamp-dev
	@echo "== Adding what builds the site"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

docs: $(VENV)/.stamp-docs
	@echo "== Site: site/index.html"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Needs Chromium and its driver.
figures: $(VENV)/.stamp-dev
	@$(BIN)/python -m tests.report.figures
	@$(BIN)/python -m tests.live.server.figures

docs/demo.svg: $(VENV)/.stamp-dev $(wildcard bbq_plugin/*.py bbq_plugin/*/*.py)
	@echo "== Picture of the demo"
	@$(BIN)/bbq demo --svg $@ > /dev/null

# Wheel, sdist and notes in dist/. The time in them is that of the last commit, so the same commit
# gives the same bytes. To publish: $(BIN)/python -m pip install twine, then twine upload dist/bbq_plugin-*
release: $(VENV)/.stamp-dev
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build
	@awk -v now="$$($(BIN)/python -c 'import bbq_plugin; print(bbq_plugin.__version__)')" \
	  '/^## \[/ {n++; sub(/\[Unreleased\]/, "[" now "]")} n == 1' CHANGELOG.md > dist/NOTES.md
	@cd dist && sha256sum *

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
