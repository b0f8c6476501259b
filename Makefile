# Everything runs in a virtual environment that `make` sets up by itself: `make help` says what there is.

PYTHON ?= python3
VENV ?= .venv

export POSTGRES_URL ?= postgres://postgres@127.0.0.1:5432/postgres
export MARIADB_URL ?= mysql://root@127.0.0.1:3306/test
export PIP_DISABLE_PIP_VERSION_CHECK = 1

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --constraint constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt
INSTALLED := $(VENV)/.installed
INSTALLED_CHECK := $(VENV)/.installed-check
INSTALLED_MARIADB := $(VENV)/.installed-mariadb

# Options for pytest, for example: make test ARGS="-k transitions -x"
ARGS ?=
# How many processes share the tests: more than cores, since many wait for real clusters.
PROCESSES ?= 4
PYTEST := $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal $(ARGS)
# What depends on the host project: not the real clusters and races, which every database sees anyway.
PYTEST_HOST := $(PYTEST) --ignore=tests/cases --ignore=tests/clusters --ignore=tests/races --ignore=tests/example --ignore=tests/test_quickstart.py

# Where `make serve` listens.
PORT ?= 8000

.DEFAULT_GOAL := help
.PHONY: help install test check format databases postgres mariadb variants chaos chaos-smoke soak demo serve bench latency recovery scale build clean
.SILENT:

help: ## Show this list.
	awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Set up the virtual environment (PYTHON=python3 VENV=.venv).

test: $(INSTALLED) ## Run the tests on SQLite.
	$(PYTEST)

check: $(INSTALLED) $(INSTALLED_CHECK) ## Check format, lint, import floors, types, Django's checks and migrations.
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy --no-error-summary
	$(BIN)/python manage.py check --fail-level WARNING
	$(BIN)/python manage.py makemigrations --check --dry-run
	echo "check: all well"

format: $(INSTALLED_CHECK) ## Format the code, and repair what the linter can.
	$(BIN)/ruff format --quiet
	$(BIN)/ruff check --fix

databases: postgres mariadb ## Run the tests on PostgreSQL and on MariaDB.

postgres: $(INSTALLED)
	echo "== PostgreSQL"
	$(BIN)/python .ci/database_answers.py PostgreSQL POSTGRES_URL
	TEST_DATABASE=postgres $(PYTEST)

mariadb: $(INSTALLED) $(INSTALLED_MARIADB)
	echo "== MariaDB"
	$(BIN)/python .ci/database_answers.py MariaDB MARIADB_URL
	TEST_DATABASE=mariadb $(PYTEST)

variants: $(INSTALLED) $(INSTALLED_MARIADB) ## Run the tests in other kinds of host project (users, time zones).
	echo "== users with a UUID key who log in by email; USE_TZ=False, east of UTC"
	TEST_USER_MODEL=email TEST_USE_TZ=0 TEST_TIME_ZONE=Asia/Shanghai $(PYTEST_HOST)
	echo "== USE_TZ=False, west of UTC"
	TEST_USE_TZ=0 TEST_TIME_ZONE=America/New_York $(PYTEST_HOST)
	echo "== MariaDB with a session zone of +08:00"
	$(BIN)/python .ci/database_answers.py MariaDB MARIADB_URL
	TEST_DATABASE=mariadb TEST_MARIADB_SESSION_ZONE=+08:00 $(PYTEST_HOST)

# Each run has servers of its own, which it strikes: one process, so that they do not hinder each other.
CHAOS := $(BIN)/python -m pytest tests/chaos --durations=5

chaos: $(INSTALLED) $(INSTALLED_MARIADB) ## Run all cases of outages and deaths on three databases (about 20 minutes).
	.ci/servers postgres pgbouncer mariadbd faketime
	for database in sqlite postgres mariadb; do \
		echo "== $$database"; \
		TEST_DATABASE=$$database $(CHAOS) $(ARGS) || exit 1; \
	done
	echo "== a limit that strikes at the end, 300 times"
	TEST_CASES_RUNS=300 $(BIN)/python -m pytest tests/cases/test_a1_limits.py -k a13

chaos-smoke: $(INSTALLED) ## Run one such case for each mechanism, on PostgreSQL and SQLite.
	.ci/servers postgres pgbouncer faketime
	echo "== SQLite"
	TEST_SOAK_MINUTES=0.5 $(CHAOS) -m smoke $(ARGS)
	echo "== PostgreSQL"
	TEST_SOAK_MINUTES=0.5 TEST_DATABASE=postgres $(CHAOS) -m smoke $(ARGS)

soak: $(INSTALLED) $(INSTALLED_MARIADB) ## Work under steady fire: 10 minutes on PostgreSQL, 3 on SQLite and MariaDB.
	.ci/servers postgres mariadbd
	TEST_SOAK_MINUTES=10 TEST_DATABASE=postgres $(BIN)/python -m pytest tests/chaos/test_soak.py $(ARGS)
	TEST_SOAK_MINUTES=3 $(BIN)/python -m pytest tests/chaos/test_soak.py $(ARGS)
	TEST_SOAK_MINUTES=3 TEST_DATABASE=mariadb $(BIN)/python -m pytest tests/chaos/test_soak.py $(ARGS)

demo: $(INSTALLED) ## Run two real jobs in a real cluster: thumbnails, and an export of 50,000 rows.
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py demo

serve: $(INSTALLED) ## Serve the example project with its worker cluster: admin, API, upload (PORT=8000).
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py serve --port $(PORT)

bench: $(INSTALLED) ## Measure our jobs against plain django-q2, on a PostgreSQL server of its own.
	$(BIN)/python -m benchmarks.bench

latency: $(INSTALLED) ## Measure how long jobs and verdicts take, and what idle clusters cost.
	$(BIN)/python -m benchmarks.latency

recovery: $(INSTALLED) ## Kill idle and busy workers and measure how soon things go on.
	$(BIN)/python -m benchmarks.recovery

scale: $(INSTALLED) ## Load a million jobs into PostgreSQL, look at them and prune them beside workers.
	$(BIN)/python -m benchmarks.scale

build: $(INSTALLED) ## Build the wheel and the source distribution into dist/.
	$(PIP_INSTALL) --group release
	rm -rf dist
	$(BIN)/python -m build --quiet
	ls dist

clean: ## Remove what the commands above have made.
	rm -rf $(VENV) build dist media job_files example.sqlite3* .coverage* .*_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(REQUIREMENTS) | $(BIN)/python
	echo "Setting up $(VENV)"
	$(PIP_INSTALL) pip
	$(PIP_INSTALL) --build-constraint constraints.txt --editable ".[postgres]" --group test --group example
	touch $@

$(INSTALLED_CHECK): $(INSTALLED)
	$(PIP_INSTALL) --group check
	touch $@

$(INSTALLED_MARIADB): $(INSTALLED)
	.ci/mariadb_headers
	$(PIP_INSTALL) --build-constraint constraints.txt --group mariadb
	touch $@
