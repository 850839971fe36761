# Two commands matter: `make demo` runs the main job, `make test` the tests. Each sets up what it needs.
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
# Tests wait as long as they compute. More at a time slow each other down on two cores.
WORKERS := 5
# Number of random moments at which fault tests kill; 50 is thorough.
MOMENTS := 10

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(VENV)/.ready: requirements.lock pyproject.toml workflow/scripts/make-venv.sh
	bash workflow/scripts/make-venv.sh $(VENV)

# Packages for tests and style; users of the workflow do not need them.
$(VENV)/.developing: $(VENV)/.ready requirements-dev.lock requirements-crates.lock
	@echo "environment: installing what the tests need"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --requirement requirements-dev.lock
	@# The validator of RO-Crates wants an older rich than Argosy.
	@rm -rf $(VENV)/crates
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-conflicts --target $(VENV)/crates --requirement requirements-crates.lock
	@touch $@

.PHONY: setup
setup: $(VENV)/.ready ## Make the virtual environment and the container tools
	@test -f "$${ARGOSY_STORE:-.argosy}/udocker/lib/VERSION" || $(BIN)/argosy setup

.PHONY: demo
demo: setup ## Run the main job: image, training on 1 and 2 nodes, report
	@$(BIN)/snakemake --quiet host progress reason
	@$(BIN)/argosy summary results/local

.PHONY: image
image: setup ## Build the demo's image
	@$(BIN)/argosy image build torch-cpu

.PHONY: lint
lint: $(VENV)/.developing ## Check style, types and Snakefiles
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/python tests/unused_names.py

# Tests that only `make test TESTS=all` runs, as CI does.
LEFT_OUT := $(if $(filter all,$(TESTS)),,and not thorough)

.PHONY: test
test: $(VENV)/.developing ## Run tests in 20 minutes, without the slowest; TESTS=all runs all in about an hour
	@$(MAKE) --no-print-directory --jobs=2 lint image
	@# Most files run beside each other; those that strike at a moment or measure time follow.
	@# All parts run, whatever the first finds, and what has failed is told once more at the end.
	@status=0; failures=$$(mktemp); \
	$(BIN)/pytest -m "not quiet and not alone and not apptainer $(LEFT_OUT)" --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
	    --moments $(MOMENTS) --durations=20 --failures=$$failures || status=1; \
	$(BIN)/pytest -m "quiet $(LEFT_OUT)" --numprocesses 2 --dist loadfile --failures=$$failures || status=1; \
	$(BIN)/pytest -m "alone $(LEFT_OUT)" --failures=$$failures || status=1; \
	cat $$failures; rm -f $$failures; \
	exit $$status

.PHONY: test-quick
test-quick: lint ## Check style and types, and run quick tests without images and Slurm
	@# They make and remove files by the thousand, at which some disks' file systems are slow.
	@folder=$$(mktemp -d -p "$$(test -w /dev/shm && echo /dev/shm || echo /tmp)"); \
	trap 'chmod -R u+w "$$folder"; rm -rf "$$folder"' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/pytest tests/unit tests/images tests/golden -m "not quiet and not alone and not slow and not container" --numprocesses 3 \
	    --dist worksteal --basetemp="$$folder/tests"

.PHONY: fuzz
fuzz: $(VENV)/.developing ## Try further garbled files on the readers of files (FROM=10000 CASES=1000 READERS=configs)
	@FUZZ=$(or $(FROM),10000):$(or $(CASES),1000) $(BIN)/pytest -q --capture=sys --tb=no --timeout=0 -m thorough \
	    $(wildcard tests/*/*/test_garbled_$(or $(READERS),*).py)

.PHONY: schema
schema: $(VENV)/.ready ## Write the JSON Schemas of config.yaml, site.yaml and summary.json
	@$(BIN)/python -m argosy.schemas workflow/schemas
	@$(BIN)/python -c 'from argosy.report.summary.models import summary_schema; print(summary_schema(), end="")' >docs/summary.schema.json

.PHONY: dist
dist: $(VENV)/.ready ## Build the wheel of this version into dist/
	@$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	@ls -1 dist/*.whl

.PHONY: docs
docs: $(VENV)/.developing ## Build the documentation site in site/
	$(BIN)/sphinx-build -q --nitpicky --fail-on-warning --keep-going -c docs . site

.PHONY: bench-demo
bench-demo: ## Time a cold and a warm `make demo` from a clean clone
	python3 benchmarks/demo.py

.PHONY: bench-rendezvous
bench-rendezvous: image ## Time the rendezvous of large jobs
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/rendezvous.py

.PHONY: bench-mpi-start
bench-mpi-start: $(VENV)/.ready ## Time the start of large MPI jobs
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/mpi_start.py

.PHONY: bench-start
bench-start: image ## Time from srun to the first training step on four nodes
	@$(BIN)/python benchmarks/start.py

.PHONY: bench-scheduler
bench-scheduler: $(VENV)/.ready ## Measure time and messages of 100 jobs on a Slurm cluster
	@PYTHONPATH=tests/slurm PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/scheduler.py

.PHONY: bench-images
bench-images: setup ## Time image builds beside ch-image and podman, as an ordinary user
	@$(BIN)/python benchmarks/image_build.py

.PHONY: bench-containers
bench-containers: image ## Time the start of containers by each engine
	@$(BIN)/python benchmarks/container_start.py

.PHONY: bench-file-calls
bench-file-calls: image ## Count a node's calls to a shared file system until its program is loaded
	@$(BIN)/python benchmarks/file_calls.py

.PHONY: bench-allocator
bench-allocator: image ## Time training with the image's allocator beside the C library's (PROGRAM= PAIRS=)
	@$(BIN)/python benchmarks/allocator.py $(if $(PROGRAM),--program $(PROGRAM)) $(if $(PAIRS),--pairs $(PAIRS))

.PHONY: bench-weak-scaling
bench-weak-scaling: image ## Time two ranks beside one, and beside two without an exchange (PROGRAM= SETS=)
	@$(BIN)/python benchmarks/weak_scaling.py $(if $(PROGRAM),--program $(PROGRAM)) $(if $(SETS),--sets $(SETS))

.PHONY: bench-binding
bench-binding: image ## Time two ranks bound to cores beside two that are not (PROGRAM= PAIRS=)
	@$(BIN)/python benchmarks/binding.py $(if $(PROGRAM),--program $(PROGRAM)) $(if $(PAIRS),--pairs $(PAIRS))

.PHONY: bench-overhead
bench-overhead: image ## Time training in a container and without (PROGRAM= ENGINE= PAIRS=)
	@$(BIN)/python benchmarks/overhead.py $(if $(PROGRAM),--program $(PROGRAM)) $(if $(ENGINE),--engine $(ENGINE)) \
	    $(if $(PAIRS),--pairs $(PAIRS))

.PHONY: bench-sampling
bench-sampling: image $(VENV)/.developing ## Time training with its agent, telemetry and recorder beside training alone
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/sampling.py

.PHONY: bench-hangs
bench-hangs: image $(VENV)/.developing ## Count false and missed verdicts on silent runs and hangs (TIMES= PROGRAMS=)
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/hangs.py $(PROGRAMS) --times $(or $(TIMES),1)

.PHONY: bench-staging
bench-staging: image ## Time the unpacking of an image on a node beside tar
	@$(BIN)/python benchmarks/staging.py

.PHONY: bench-planning
bench-planning: $(VENV)/.developing ## Time snakemake -n for up to 10,000 points beside empty workflows (POINTS= TURNS=)
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/planning.py $(POINTS) --turns $(or $(TURNS),3)

.PHONY: bench-opened-files
bench-opened-files: $(VENV)/.developing ## Count how often a snakemake of two runs opens the files of its study, by strace
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/opened_files.py

.PHONY: bench-report
bench-report: $(VENV)/.developing ## Time large studies from records to the report beside bare engines
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/report.py

.PHONY: corpus
corpus: $(VENV)/.developing ## Print digests of the report's outputs over many studies, to compare revisions (FOLDER=)
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/report_corpus.py $(or $(FOLDER),.corpus)

.PHONY: bench-page
bench-page: $(VENV)/.developing ## Time the opening of a report of 1,000 runs in a browser
	@PYTHONPATH=tests/factories PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/page.py

.PHONY: bench-coverage
bench-coverage: $(VENV)/.ready ## Count how often 95 % intervals cover the truth of ugly studies
	@PYTHONPATH=tests/factories $(BIN)/python benchmarks/coverage.py

.PHONY: bench-prediction
bench-prediction: image ## Compare predictions with steps on a network of known delay and rate (STUDIES=20)
	@PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/prediction.py $(STUDIES)

.PHONY: compare-images
compare-images: image ## Build Dockerfiles by Argosy, podman and ch-image, and compare the files
	@$(BIN)/python benchmarks/same_images.py

.PHONY: compare-namespaces
compare-namespaces: image $(VENV)/.developing ## Build Dockerfiles with and without user namespaces, and compare the files (IMAGES=)
	@PYTHONPATH=tests/factories:tests/containers PYTHONDONTWRITEBYTECODE=1 $(BIN)/python benchmarks/same_without_namespaces.py $(IMAGES)

.PHONY: check-bare
check-bare: ## As root: set up, build and test on a Debian that has only Python and make
	bash tests/machines/bare-debian.sh

.PHONY: check-apptainer
check-apptainer: ## As root: test the engine apptainer on a Debian that has it
	bash tests/machines/apptainer.sh

.PHONY: check-red-hat
check-red-hat: $(VENV)/.developing setup ## Run the demo from nothing without apt, overlay and a new python3
	@PYTHONPATH=tests/factories $(BIN)/python tests/machines/red_hat_demo.py

CLUSTER := PYTHONPATH=tests/slurm PYTHONDONTWRITEBYTECODE=1 $(BIN)/python -m cluster

.PHONY: cluster-up
cluster-up: $(VENV)/.ready ## Start a Slurm cluster of four nodes on this machine
	@$(CLUSTER) up .cluster $(if $(ACCOUNTING),--accounting)

.PHONY: cluster-run
cluster-run: ## Run a command on its login node: CMD='squeue'
	@$(CLUSTER) run .cluster bash -c '$(subst ','\'',$(CMD))'

.PHONY: cluster-down
cluster-down: ## Stop the cluster
	@$(CLUSTER) down .cluster
