# `make up` starts Cronty and `make test` tests it, both on a fresh machine; most other targets are longer checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The lock files name every package, so pip resolves no dependencies.
PIP_INSTALL := install -q --disable-pip-version-check --no-input --require-hashes --no-deps
ARGS ?=

.PHONY: up test verify coverage install install-dev dist check check-types check-rules compile-tests advisories bare pythons bench figures faults mutants hosts load soak browser programs conformance fuzz model agents contract lock clean

up: install
	@$(BIN)/python manage.py up $(ARGS)

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

# A minimal Debian has no ensurepip, so its `venv` has no pip: use the system's pip to install into it.
MAKE_VENV := $(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
PIP = if $(BIN)/python -m pip --version >/dev/null 2>&1; then pip="$(BIN)/python -m pip"; \
	else pip="$(PYTHON) -m pip --python $(BIN)/python"; fi; $$pip $(PIP_INSTALL)

$(VENV)/.installed: requirements.txt
	@echo "Installing into $(VENV) …"
	@$(MAKE_VENV)
	@$(PIP) -r $<
	@touch $@

# The tools' list includes the app's. Two runs of pip at once install the app and the rest. Python compiles the modules
# that are imported; pip would compile all of them.
TOOLS := awk 'NR == FNR { if (/==/) app[$$1]; next } /==/ { is_tool = !($$1 in app) } is_tool' requirements.txt requirements-dev.txt
$(VENV)/.installed-dev: requirements-dev.txt requirements.txt
	@echo "Installing the app and the test tools into $(VENV) …"
	@[ -e $(VENV)/.installed ] && [ ! requirements.txt -nt $(VENV)/.installed ] || { $(MAKE_VENV); }
	@{ $(PIP) --no-compile -r requirements.txt; } & app=$$!; \
	{ $(TOOLS) | { $(PIP) --no-compile -r /dev/stdin; }; }; failed=$$?; wait $$app && exit $$failed
	@touch $(VENV)/.installed $@

# Build the wheel with tools of its own, check its contents, start it, and follow the Dockerfile and the page on deploying.
dist:
	@$(PYTHON) -m verification.dist $(ARGS)

check: install-dev
	@echo "Static checks …"
	@$(MAKE) --no-print-directory -j2 check-types check-rules

check-types:
	@$(BIN)/mypy

check-rules:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/djlint --check --lint --quiet schedules/templates templates
	@$(BIN)/lint-imports
	@$(BIN)/bandit -q -r schedules cronty_site -c pyproject.toml 2>/dev/null
	@$(BIN)/python -m verification.advisories --any-age
	@$(BIN)/python manage.py makemigrations --check --dry-run
	@CRONTY_URL=https://cronty.example $(BIN)/python manage.py check --deploy --fail-level WARNING

# Compare the pinned versions with known advisories, which may be 60 days old; ARGS=--online also asks the package index of pip.
advisories: install-dev
	@$(BIN)/python -m verification.advisories $(ARGS)

# Collect the tests once, on the core that mypy leaves free: all workers would compile what they import at the same time.
compile-tests: $(VENV)/.compiled
$(VENV)/.compiled: $(shell find schedules cronty_site tests verification -name '*.py')
	@$(BIN)/python -m pytest --collect-only -m "" -n 0 >/dev/null || $(BIN)/python -m pytest --collect-only -m "" -n 0
	@touch $@

# Tests whose outcome can depend on the database run on both: `make test` repeats what fires jobs, `make verify` the rest.
# Everything else, such as pages, parsers and settings, runs on SQLite only, and so do files that use no database.
# Validation is repeated: PostgreSQL refuses values that SQLite stores.
WITHOUT_DATABASE := tests/engine/test_plan.py tests/services/installation/test_local_server.py tests/worker/test_calls.py \
	tests/worker/test_permits.py tests/worker/test_parent_death.py \
	tests/worker/test_supervisor.py
# It starts a project of its own, which is on SQLite.
ON_SQLITE_ONLY := tests/services/people/test_profiles.py::test_app_works_with_a_minimal_custom_user_model
EXCEPT := $(WITHOUT_DATABASE:%=--ignore=%) $(ON_SQLITE_ONLY:%=--deselect=%)
RACES := tests/services/test_races.py tests/services/test_turns.py
CLAIMS := tests/worker/test_claim_loop.py tests/worker/test_loop.py
TESTED_ON_POSTGRESQL := tests/engine $(CLAIMS) tests/worker/test_cluster_on_postgresql.py $(RACES) $(EXCEPT)
VERIFIED_ON_POSTGRESQL := tests/models tests/worker \
	tests/services/jobs tests/services/people tests/services/runs tests/services/files/test_applying.py \
	$(wildcard tests/services/test_*.py) tests/test_clock.py tests/test_growth.py \
	tests/management/test_preparation.py tests/management/test_restore.py \
	tests/mcp/test_queries.py tests/security/test_hostile_requests.py tests/web/test_health.py \
	verification/hosts verification/model/test_agreement.py::test_cronty_agrees_with_the_reference \
	$(RACES:%=--ignore=%) $(CLAIMS:%=--ignore=%) $(EXCEPT)

# Even where Python is told not to, keep the bytecode of the tests and the app: every process would compile them again.
test verify coverage pythons: export PYTHONDONTWRITEBYTECODE =
test: install-dev
	@echo "Static checks …"
	@$(MAKE) --no-print-directory -j2 check-types check-rules compile-tests
	@echo "All tests, on SQLite …"
	@$(BIN)/python -m pytest $(ARGS)
	@echo "Engine, claims and races, on PostgreSQL …"
	@$(BIN)/python -m tests.postgres $(BIN)/python -m pytest $(TESTED_ON_POSTGRESQL) $(ARGS)

# What `make test` leaves out because it takes long: a fault campaign, more random input, growth, installations; on PostgreSQL,
# every other test that depends on the database, and of the long ones those that only PostgreSQL may fail.
verify: install-dev
	@echo "Longer tests, on SQLite …"
	@$(BIN)/python -m pytest -m verify $(ARGS)
	@echo "Everything else that depends on the database, on PostgreSQL …"
	@$(BIN)/python -m tests.postgres $(BIN)/python -m pytest -m "not verify or on_postgresql" $(VERIFIED_ON_POSTGRESQL) $(ARGS)

# Branch coverage of the whole app by all tests on both databases, in the servers and clusters that they start, too; it makes a
# test take up to twice as long.
coverage: install-dev
	@rm -f .coverage .coverage.*
	@$(BIN)/python -m pytest -m "" --cov --cov-report=
	@$(BIN)/python -m tests.postgres $(BIN)/python -m pytest -m "" --cov --cov-append --cov-report= $(TESTED_ON_POSTGRESQL)
	@$(BIN)/python -m tests.postgres $(BIN)/python -m pytest -m "" --cov --cov-append --cov-report= $(VERIFIED_ON_POSTGRESQL)
	@$(BIN)/coverage report --fail-under=95

# Run both commands of the README on a minimal Debian 12 as an ordinary user (needs root): ARGS="--times 3", "--only up".
bare:
	@$(PYTHON) -m verification.bare $(ARGS)

# Try every Python from 3.11 on that this machine has: `up --check`, the process tests, a stop under load. ARGS=--others
# leaves out the Python of `make test`, --only-tests runs only the tests.
pythons: install-dev
	@$(BIN)/python -m verification.pythons $(ARGS)

# Cronty beside its peers, as in docs/reference/benchmarks.md: ARGS="cronty celery" measures only these.
bench: install-dev
	@$(BIN)/python -m verification.bench.run $(ARGS)

# The other figures of docs/reference/figures.md, printed as `name value unit`, on both databases.
figures: install-dev
	@$(BIN)/python -m verification.bench.engine
	@$(BIN)/python -m tests.postgres --durable $(BIN)/python -m verification.bench.engine
	@$(BIN)/python -m verification.bench.mixed
	@$(BIN)/python -m tests.postgres --durable $(BIN)/python -m verification.bench.mixed
	@$(BIN)/python -m verification.bench.sustained --seconds 60 1500
	@$(BIN)/python -m tests.postgres --durable $(BIN)/python -m verification.bench.sustained --seconds 60 2500
	@$(BIN)/python -m verification.bench.web
	@$(BIN)/python -m tests.postgres --durable $(BIN)/python -m verification.bench.web pings api
	@$(BIN)/python -m verification.bench.agents
	@$(BIN)/python -m verification.bench.budgets
	@$(BIN)/python -m verification.bench.pruning
	@$(BIN)/python -m tests.postgres --durable $(BIN)/python -m verification.bench.pruning
	@$(BIN)/python -m verification.bench.mcp
	@$(BIN)/python -m verification.bench.mcp_start
	@$(BIN)/python -m verification.bench.terminal
	@$(BIN)/python -m verification.bench.creates
	@$(BIN)/python -m tests.postgres --durable $(BIN)/python -m verification.bench.creates

# The long fault campaign: every kind of fault ten times, on both databases at once; reports go to .cache/faults.
faults: install-dev
	@$(BIN)/python -m verification.faults.campaign --database both --rounds 10 --seconds 9000 --jobs 100 --bars $(ARGS)

# Planted bugs, one at a time in a copy of the checkout: the fault campaign must catch almost all. ARGS=--quick takes about
# ten minutes on two free cores.
mutants: install-dev
	@$(BIN)/python -m verification.mutants $(ARGS)

# Four hosts on one PostgreSQL, each in its own network namespace (needs root; without it, processes on loopback):
# throughput, shares, doubles, and a host that is cut off and comes back.
hosts: install-dev
	@$(BIN)/python -m verification.hosts $(ARGS)
	@$(BIN)/python -m verification.hosts.sizes

# A load test: 50 people and 20 agents use 10,000 jobs.
load: install-dev
	@$(BIN)/python -m verification.load $(ARGS)

# The same load for an hour on each database: nothing may fail, be late or grow.
soak: install-dev
	@$(BIN)/python -m verification.load --soak 3600 $(ARGS)
	@$(BIN)/python -m tests.postgres --durable $(BIN)/python -m verification.load --soak 3600 $(ARGS)

# Every tool and scenario over every transport and in both protocol eras, then the official MCP conformance suite and
# inspector (which need Node and npm).
conformance: install-dev
	@npm install --silent --no-fund --no-audit --prefix .cache @anthropic-ai/mcpb@2
	@$(BIN)/python -m pytest -m "" tests/web/test_bundle.py
	@MCP_MATRIX=full $(BIN)/python -m pytest -m "" tests/mcp/tools tests/mcp/test_scenarios.py
	@$(BIN)/python -m tests.mcp.conformance

# Real agent programs from npm, with a scripted model on this machine: they follow the page Connect, and call the tools.
programs: install-dev
	@npm install --silent --no-fund --no-audit --prefix .cache @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai \
	  @qwen-code/qwen-code @continuedev/cli cline
	@$(BIN)/python -m pytest -m "" tests/programs -n 1 $(ARGS)

# Every page in a real browser: accessibility, size, script injection, and typical use.
browser: install-dev
	@npm install --silent --no-fund --no-audit --prefix .cache axe-core lighthouse@12 esbuild@0.25 zod@4 \
	  @modelcontextprotocol/ext-apps@2 @modelcontextprotocol/client@2 @modelcontextprotocol/core@2 @modelcontextprotocol/server@2
	@BROWSER_TESTS=full $(BIN)/python -m pytest -m "" tests/browser -n 2 $(ARGS)
	@$(BIN)/python -m tests.browser.lighthouse

# 20,000 random tool calls, 100 calls of each address of the API, 200,000 texts for the parsers and 20,000 hostile
# requests: no crash, no leak, no hang.
fuzz: install-dev
	@API_EXAMPLES=100 $(BIN)/python -m pytest -m "" tests/api/test_schema.py -n 1 --timeout 3000 $(ARGS)
	@FUZZ_CALLS=20000 $(BIN)/python -m pytest -m "" tests/mcp/test_fuzz.py -n 1 --timeout 3000 $(ARGS)
	@FUZZ_INPUTS=200000 COST_STEP=1 $(BIN)/python -m pytest -m "" tests/fuzz -n 0 -s $(ARGS)
	@HOSTILE_REQUESTS=20000 $(BIN)/python -m pytest -m "" tests/security/test_hostile_requests.py -n 2 $(ARGS)
	@HOSTILE_REQUESTS=20000 $(BIN)/python -m tests.postgres $(BIN)/python -m pytest -m "" tests/security/test_hostile_requests.py -n 2 $(ARGS)

# Random sequences of operations and time steps, compared with a simple model of Cronty, on both databases.
model: install-dev
	@MODEL_EXAMPLES=2000 $(BIN)/python -m pytest -m "" verification/model -n 1 $(ARGS)
	@MODEL_EXAMPLES=1000 $(BIN)/python -m tests.postgres $(BIN)/python -m pytest -m "" verification/model -n 1 $(ARGS)

# A thousand runs of a scripted agent program whose sessions go on and whose calls ask, undisturbed and with workers that are
# killed: what the ledger says that they used equals what the program counted.
agents: install-dev
	@AGENT_RUNS=1000 $(BIN)/python -m pytest -m "" verification/agents -n 1 --timeout 4000 $(ARGS)

# Rewrite the recorded contract with agents, for review in a diff.
contract: install-dev
	@$(BIN)/python -m tests.mcp.contract

# Update the lock files: exact versions with hashes, without host names.
lock:
	uv pip compile pyproject.toml --universal --generate-hashes --no-header --no-annotate -o requirements.txt $(ARGS)
	uv pip compile pyproject.toml --extra dev -c requirements.txt --universal --generate-hashes --no-header --no-annotate -o requirements-dev.txt $(ARGS)
	grep -E '^(django|django-q2|psycopg)==' requirements.txt | cut -d' ' -f1 | uv pip compile verification/bench/peers/requirements.in -c /dev/stdin \
	  --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o verification/bench/peers/requirements.txt $(ARGS)

clean:
	rm -rf $(VENV)
