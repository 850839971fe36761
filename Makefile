# Two commands matter: `make demo` runs the main job, `make test` the tests. Each sets up what it needs.
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.ready: requirements.lock pyproject.toml workflow/scripts/make-venv.sh
	bash workflow/scripts/make-venv.sh $(VENV)

.PHONY: setup
setup: $(VENV)/.ready ## Virtual environment and container tools
	@test -f "$${ARGOSY_STORE:-.argosy}/udocker/lib/VERSION" || $(BIN)/argosy setup

.PHONY: demo
demo: setup ## The main job: image, training on 1 and 2 nodes, report
	@$(BIN)/snakemake --quiet host progress reason
	@$(BIN)/argosy summary results/local

.PHONY: image
image: setup ## The image of the demo, built as far as it is not cached
	@$(BIN)/argosy image build torch-cpu

.PHONY: lint
lint: $(VENV)/.ready ## Style, types, Snakefiles
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check workflow

.PHONY: test
test: lint image ## All tests
	$(BIN)/pytest

.PHONY: bench-demo
bench-demo: ## Time a cold and a warm `make demo` from a clean clone
	python3 benchmarks/demo.py

.PHONY: check-bare
check-bare: ## As root: set up and build on a Debian that has only Python and make
	bash tests/machines/bare-debian.sh
