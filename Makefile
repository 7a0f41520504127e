# `make` alone lists what there is.
PYTHON    ?= python3
VENV      := .venv
BIN       := $(VENV)/bin
TOOLS     := $(VENV)/.builds
STAMP     := $(VENV)/.installed
SPHINX    := $(VENV)/.documents
COLLECTED := $(VENV)/.collected
NODE      := out/node/.installed
PIP       := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL   := $(PIP) install --no-compile --require-hashes --no-deps --no-build-isolation
COMPILING := llvmlite|msgspec|numba|numpy|typing-extensions
KERNELS   := "from reefcast.matching import columnar, cover, packets, warm_up; warm_up(); columnar.warm_up(); cover.warm_up()"
EVENTS    ?= 6000
PREPARE   ?= demo
STORED    ?= 10000000

.DEFAULT_GOAL := help
# Many Python processes are started below; without bytecode each compiles every module it imports.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo node quick test soak check format bench history docs site lock wheel clean java

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(TOOLS): requirements/build.lock
	@echo "creating $(VENV), and installing what builds packages"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements/build.lock
	@touch $@

# --no-compile: of eight thousand modules most are never imported; those that are, Python compiles.
# What compiles the kernels (once for all brokers and tests: a minute) is installed first, and they
# are compiled while the rest is installed. PySpark comes as sources, 450 MB: a third of the whole.
# `make PREPARE= test` leaves out what only the demo needs.
$(STAMP): $(TOOLS) pyproject.toml lab/pyproject.toml requirements/dev.lock
	@echo "installing the locked dependencies (a few minutes the first time)"
	@sed -E -n '/^pyspark==/,/^    #/p' requirements/dev.lock >$(VENV)/.spark.lock
	@sed -E -n '/^($(COMPILING))==/,/^    #/p' requirements/dev.lock >$(VENV)/.compiling.lock
	@sed -E '/^(pyspark|$(COMPILING))==/,/^    #/d' requirements/dev.lock >$(VENV)/.others.lock
	@$(INSTALL) -r $(VENV)/.spark.lock & spark=$$!; $(INSTALL) -r $(VENV)/.others.lock & others=$$!; \
	{ $(INSTALL) -r $(VENV)/.compiling.lock && \
	  $(PIP) install --no-deps --no-build-isolation -e . -e lab && \
	  $(BIN)/python -c $(KERNELS); }; kernels=$$?; wait $$spark && wait $$others && exit $$kernels
	@if [ "$(PREPARE)" ] && $(PYTHON) tools/check_java.py 2>/dev/null; then \
	  echo "preparing the demo: its events"; \
	  $(BIN)/reefcast-lab demo --prepare; fi
	@touch $@

$(SPHINX): $(STAMP) requirements/docs.lock
	@echo "installing what builds the site of the documentation"
	@$(PIP) install --require-hashes -r requirements/docs.lock
	@touch $@

java:
	@$(PYTHON) tools/check_java.py

demo: java $(STAMP) ## flights over 12 brokers, checked by Spark, with a report (EVENTS=all for every event)
	$(BIN)/reefcast-lab demo --events $(EVENTS)

quick: $(STAMP) ## the tests that open no connection and start no process, for the inner loop
	$(BIN)/python -m pytest --quick -n 2 --dist worksteal tests

# Each of four processes would rewrite every test for its assertions: the first time one does, for all.
$(COLLECTED): $(STAMP)
	@echo "preparing the tests"
	@$(BIN)/python -m pytest --collect-only -q >/dev/null || true
	@touch $@

test: java $(COLLECTED) ## every test
	$(BIN)/python -m pytest -n 4 --dist worksteal

$(NODE): requirements/node/package.json requirements/node/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@npm ci --prefix $(@D) --silent --no-audit --no-fund --ignore-scripts
	@touch $@

node: $(NODE) ## MQTT.js, which tests try if it is there (needs npm)

soak: java $(STAMP) ## long seeded runs: random networks, faults and kills
	$(BIN)/python -m pytest -m soak --soak

check: $(STAMP) ## format, lint, types, structure and reference pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/tidy.py
	$(BIN)/python tools/make_docs.py --check

format: $(STAMP) ## format, and fix what can be fixed automatically
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: java $(STAMP) ## the figures: live broker, simulator, matching, covering, mesh, gossip, history and Spark, each beside its baselines
	$(BIN)/reefcast-lab bench live
	$(BIN)/reefcast-lab bench sim
	$(BIN)/reefcast-lab bench match
	$(BIN)/reefcast-lab bench cover
	$(BIN)/reefcast-lab bench cover --graphs
	$(BIN)/reefcast-lab bench statistics
	$(BIN)/reefcast-lab bench client
	$(BIN)/reefcast-lab bench mesh
	$(BIN)/reefcast-lab bench gossip
	$(BIN)/reefcast-lab bench history
	$(BIN)/reefcast-lab bench spark

history: $(STAMP) ## the history's figures with STORED messages (10 million: 5 GB in /tmp, ten minutes)
	$(BIN)/reefcast-lab bench history --stored $(STORED)

docs: $(STAMP) ## regenerate the reference pages under docs/
	$(BIN)/python tools/make_docs.py

site: $(SPHINX) ## the documentation as a site with search, in out/site (read without a network)
	$(BIN)/sphinx-build -q --fail-on-warning --builder html -c docs/_site . out/site
	@echo "open out/site/index.html"

lock: ## lock the dependencies anew (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	  requirements/build.in -o requirements/build.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	  -c requirements/build.lock --no-emit-package reefcast --extra baselines --group dev \
	  pyproject.toml lab/pyproject.toml -o requirements/dev.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	  -c requirements/dev.lock --group pyproject.toml:docs -o requirements/docs.lock

wheel: $(TOOLS) ## a wheel and an sdist, in dist/ (needs none of the dependencies)
	$(BIN)/python -m hatchling build -d dist

clean: ## remove the environment and everything made
	rm -rf $(VENV) out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
