# Everything runs in .venv; nothing is installed elsewhere except the llama.cpp wheel, which takes
# minutes to build and is therefore kept outside the checkout.

PYTHON ?= python3
WHEELS ?= $(HOME)/.cache/decision-worker/wheels
IMAGES ?= $(HOME)/.cache/decision-worker/images
ARGS ?=
# Many tests wait for a process that starts on one core. Files are not split: their tests share
# what is costly to start.
TEST_PROCESSES ?= 2

VENV := .venv
EMULATORS_VENV := .venv-emulators
INFRA_VENV := .venv-infra
PY := $(VENV)/bin/python
# Errors only: at one --quiet pip still warns about every index that lacks a package.
PIP := $(PY) -m pip --quiet --quiet --disable-pip-version-check
CACHES := .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: setup demo test test-full test-clients test-emulators infra-check coverage check format bench bench-engine bench-load bench-queue bench-whole tables dashboards soak lock clean help FORCE

setup: $(VENV)/.llama $(VENV)/.project  ## make .venv; builds llama.cpp the first time (about 8 minutes on 2 cores)

demo: setup  ## run sample tickets through a local queue and a small model
	$(VENV)/bin/decision-worker demo $(ARGS)

test: setup  ## run the tests (ARGS='-k name' for some of them)
	$(PY) -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile $(ARGS)

test-full: setup  ## run all tests, with full counts; takes much longer
	$(PY) -m pytest -m "not emulators and not infra" $(ARGS)

# Node's package manager says itself where packages come from.
test-clients: setup  ## test other languages' clients; needs Node 20 and npm
	@npm install --silent --no-audit --no-fund --no-save --prefix build/clients @typesafe-ai/sdk@0.6.0
	NODE_MODULES=build/clients/node_modules $(PY) -m pytest $(ARGS) tests/acceptance/javascript_client.py

test-emulators: setup $(EMULATORS_VENV)/.requirements  ## test queue and topic on a second emulator, and deploy infra/ into it
	$(PY) -m pytest -m emulators $(ARGS)

infra-check: setup $(INFRA_VENV)/.requirements  ## check the templates of infra/ with cfn-lint, checkov, hadolint and our own rules
	$(PY) -m pytest -m "infra or not infra" tests/unit/test_templates.py tests/acceptance/test_linters.py $(ARGS)

coverage: setup  ## see that tests reach every branch of the engine's plan
	$(PY) -m coverage run --data-file=$(VENV)/coverage -m pytest -q tests/unit/engine
	$(PY) -m coverage report --data-file=$(VENV)/coverage

check: setup  ## check format, lint, types and import directions
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

format: setup  ## format the code and fix what ruff can fix
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: setup  ## measure this machine
	$(PY) -m tests.bench --core $(ARGS)
	$(PY) -m tests.bench.interactive
	$(PY) -m tests.bench.end_to_end --memory-tickets 0

bench-engine: setup  ## measure the engine beside llama.cpp, its server and its growth (20 minutes)
	$(PY) -m tests.bench $(ARGS)

bench-load: setup  ## show what retrying clients see at 0.5, 1, 2 and 4 times the capacity
	$(PY) -m tests.bench.load $(ARGS)

bench-queue: setup $(EMULATORS_VENV)/.requirements  ## measure the queue face beside a bare loop of the same calls
	$(PY) -m tests.bench.queue $(ARGS)

bench-whole: setup  ## measure a whole worker on an emulator: tickets per second, memory over ten thousand
	$(PY) -m tests.bench.end_to_end $(ARGS)

soak: setup  ## kill workers and fail calls for 10 minutes, count every ticket (ARGS='--minutes 2')
	$(PY) -m tests.soak $(ARGS)

# Names of hosts stay out of the file: whoever installs says where packages come from.
# llama-cpp-python itself is in requirements-llama.txt.
lock: $(VENV)/.created  ## write the lock files anew from pyproject.toml (ARGS=--upgrade for newer versions)
	@test -x $(VENV)/bin/uv || $(PIP) install uv
	@$(call lock,requirements.txt,--extra local --extra parquet --extra quality --extra tracing --extra docs --extra build --extra dev)
	@$(call lock,docker/requirements.txt,--extra tracing --constraint requirements.txt)
	@$(call lock,docker/requirements-build.txt,--extra image --extra build --constraint requirements.txt)

# The file, and the extras that it holds. What is there already stays as it is.
define lock
  cp $(1) $(VENV)/lock.txt 2>/dev/null || true; \
  $(VENV)/bin/uv pip compile pyproject.toml $(2) \
    --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    --no-emit-package llama-cpp-python --quiet $(ARGS) --output-file $(VENV)/lock.txt >/dev/null && \
  if grep -nE '://|^-' $(VENV)/lock.txt; then echo "error: the lock names a place" >&2; exit 1; fi && \
  { echo "# Made by 'make lock' from pyproject.toml: everything but llama.cpp, with hashes, for"; \
    echo "# every platform and Python >= 3.11. Do not edit."; \
    grep -v '^#' $(VENV)/lock.txt; } >$(VENV)/requirements.new && \
  mv $(VENV)/requirements.new $(1)
endef

image-check: setup  ## build the container image and run it, shut in; needs buildah, podman, runc, mmdebstrap and root
	$(PY) tools/check_image.py --folder '$(IMAGES)' --model "$$($(VENV)/bin/decision-worker sample-model | head -n 1)" $(ARGS)

docs: setup  ## build the documents as a site, in build/site
	$(PY) -m mkdocs build --strict --quiet
	@echo "build/site/quick-start.html"

tables: setup  ## write the tables in docs/ that are made from the code
	$(PY) tools/write_metrics_table.py
	$(PY) tools/write_events_table.py

dashboards: setup  ## write the dashboards in infra/ anew from its list of panels
	$(PY) tools/write_dashboards.py

clean:  ## remove .venv, caches and build files
	rm -rf $(VENV) $(EMULATORS_VENV) $(INFRA_VENV) $(CACHES)
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
	@echo "The built llama.cpp wheels stay; to remove them: rm -r '$(WHEELS)'"

help:  ## show this list
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

# --- what setup is made of ---------------------------------------------------------------------

# All that can be missing on the machine is looked for first: the steps after it take minutes.
$(VENV)/.created:
	@command -v $(firstword $(PYTHON)) >/dev/null || { echo "error: no $(PYTHON): install Python 3.11 or newer, or set PYTHON" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old: set PYTHON to Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	@for compiler in "$${CC:-cc}" "$${CXX:-c++}"; do command -v $${compiler%% *} >/dev/null || { echo "error: no $$compiler: apt-get install build-essential, or set CC and CXX" >&2; exit 1; }; done
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.requirements: requirements.txt $(VENV)/.created
	@echo "Installing requirements.txt"
	@$(PIP) install --require-hashes --requirement requirements.txt
	@touch $@

# In venvs of their own: each pins another botocore than the worker.
$(EMULATORS_VENV)/.requirements $(INFRA_VENV)/.requirements: .venv-%/.requirements: requirements-%.txt
	@$(PYTHON) -m venv --clear $(@D)
	@echo "Installing $<"
	@$(@D)/bin/python -m pip --quiet --quiet --disable-pip-version-check install --require-hashes --requirement $<
	@touch $@

# Asked every time, since another CMAKE_ARGS or another CPU means another wheel; it answers at once
# when that wheel is there.
$(VENV)/.llama: $(VENV)/.requirements FORCE
	@wheel="$$($(PY) tools/build_llama_wheel.py --cache '$(WHEELS)')" && \
	if [ "$$(cat $@ 2>/dev/null)" != "$$wheel" ]; then \
	  echo "Installing $$wheel" && \
	  $(PIP) install --no-deps --no-index --force-reinstall "$$wheel" && echo "$$wheel" >$@; \
	fi

# Again when the version changes, which is written there.
$(VENV)/.project: pyproject.toml worker/__init__.py $(VENV)/.requirements | $(VENV)/.llama
	@$(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@touch $@
