# Everything a checkout needs, on a machine with Python 3.11 or newer: no root, nothing installed outside
# this directory. `make` alone lists the targets.

# The first Python that is new enough; name another with `make PYTHON=/path/to/python`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

VENV := .venv/bin
BIN := .build/bin
KEEP ?=
N ?= 10000
TAG ?=
BASE ?=
SEED ?= 1
PROCESSES ?=
PLANTED ?=
ENUMERATED ?=
FIXED ?=
HOURS ?= 2
OUT ?= .build/pictures
CHANGED ?=

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo playground recording test check newest lowest conformance coverage bench faults nightly-tests step-failures soak replicas laws site contract mutants steady image image-check release-check audit lint rules pictures readme-pictures alerts dashboards victoria format lock generate clean python venv run-venv binaries browser kubectl screenshots incident-pictures

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: run-venv binaries ## watch it work: simulator, Prometheus, Alertmanager, the autoscaler (KEEP=1 leaves them running)
	@KEEP=$(KEEP) $(VENV)/python -m demo

playground: run-venv binaries ## the same stack with a month behind it: jobs arrive by themselves until Ctrl-C (SEED=2 for other jobs)
	@$(VENV)/python -m demo --playground --seed $(SEED)

recording: venv binaries ## play the demo and draw what it prints as docs/pictures/demo.svg (about two minutes)
	@$(VENV)/python -m demo.recording

test: venv binaries browser kubectl ## everything that must hold: lint and types beside the test suite, which checks and tests the rules too (ONLY=tests/core/scaling for some of the tests)
	@$(VENV)/python -m $(if $(ONLY),pytest -q $(ONLY),tools.run_checks --) $(if $(TIMES),-p tools.test_times --times=$(abspath $(TIMES)))

check: venv ## before each commit, under a minute: lint, types, and the tests that need no server
	@$(VENV)/python -m tools.run_checks --quick

newest: venv ## after make test, where a newer Python is installed than that of .venv: make check, failures of steps and the tests of the store with it
	@$(VENV)/python -m tools.newest_python

lowest: venv ## the tests that need no server with the lowest versions that pyproject.toml allows, in an environment of its own (half an hour)
	@$(VENV)/python -m tools.lowest_versions

coverage: venv binaries browser kubectl ## branch coverage of core, step and adapters by the whole suite (OUT=dir; some minutes more than make test)
	@$(VENV)/python -m tools.branch_coverage $(if $(filter file,$(origin OUT)),,--html $(OUT))

bench: venv binaries ## measure: reaction from pending pod to Civo call, webhook throughput, memory, growth, policies (half an hour, and the traces' time)
	@$(VENV)/python -m benchmarks

faults: venv ## ten thousand random worlds with faults against the invariants (N=100 SEED=1 for fewer), or PROCESSES=200 schedules of the real process, or ENUMERATED=1 every fault at every write, or PLANTED=1 bugs (hours), or FIXED=1 the same worlds each time (minutes)
	@$(VENV)/python -m campaigns.faults --seed $(SEED) $(if $(FIXED),--fixed,$(if $(PLANTED),--planted,$(if $(ENUMERATED),--enumerated,$(if $(PROCESSES),--processes $(PROCESSES),--worlds $(N)))))

nightly-tests: venv ## the tests that `make test` leaves out because others show the same (minutes)
	@$(VENV)/python -m pytest -q -n 2 -m nightly tests/campaigns tests/replay tests/step

step-failures: venv ## an exception in every function of a step, and what the other pools got (minutes)
	@$(VENV)/python -m campaigns.step_failures

soak: venv ## a burn-in: the real server for HOURS=2 under random work and faults, a day of them an hour; fails if a figure grows (SEED=1)
	@$(VENV)/python -m campaigns.soak --hours $(HOURS) --seed $(SEED) --out .build/soak.csv

replicas: N = 20
replicas: venv ## rounds with three replicas on PostgreSQL whose leader dies, freezes or is stopped (N=20 SEED=1; half a minute each)
	@$(VENV)/python -m campaigns.replicas --rounds $(N) --seed $(SEED)

laws: venv ## every law of the tests with fifty times the examples
	@$(VENV)/python -m pytest -q -n 2 --dist worksteal -m hypothesis --hypothesis-profile=long

conformance: venv binaries ## the real program's scenarios against a cluster (CLUSTER=kubeconfig CIVO=stub|real; the simulator otherwise)
	@$(VENV)/python -m conformance $(if $(filter list,$(ONLY)),--list,$(if $(ONLY),--only "$(ONLY)")) \
		$(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(CIVO),--civo $(CIVO)) $(if $(KUBELET),--kubelet $(KUBELET)) \
		$(if $(PROMETHEUS_URL),--prometheus $(PROMETHEUS_URL)) $(if $(ALERTMANAGER_URL),--alertmanager $(ALERTMANAGER_URL)) \
		$(if $(BESIDE),--beside) $(if $(JUNIT),--junit $(JUNIT)) $(if $(MAY_SPEND),--may-spend $(MAY_SPEND)) $(if $(PATIENCE),--patience $(PATIENCE))

site: venv ## write the documentation as a static site with search into .build/site
	@$(VENV)/python -m tools.documentation_site

contract: venv ## ask the running server everything that its OpenAPI document allows, and what it does not (some minutes)
	@$(VENV)/python -m campaigns.contract --seed $(SEED)

steady: N = 10
steady: venv binaries browser kubectl ## the whole suite N=10 times, three at once, and what failed in any of them (an hour or two)
	@$(VENV)/python -m tools.tests_under_load --runs $(N)

mutants: venv ## change code in small ways, one by one, and see the tests find each (CHANGED=1: what changed since main, CHANGED=ref)
	@$(VENV)/python -m tools.mutants $(if $(CHANGED),--changed $(if $(filter 1,$(CHANGED)),main,$(CHANGED)))

image: python ## build the image with docker, podman or buildah (TAG=name:tag BASE=image)
	@$(PYTHON) -m tools.image $(if $(TAG),--tag $(TAG)) $(if $(BASE),--base $(BASE))

image-check: venv ## build and run the image without an engine, install without one, start the systemd unit; prove what they claim (root; minutes)
	@$(VENV)/python -m campaigns.image

release-check: venv kubectl ## all of a release that needs no registry: versions, changelog, wheel, chart (TAG=v0.2.0)
	@$(VENV)/python -m tools.release_check --tag "$(TAG)"
	@$(VENV)/python -m tests.browser.pictures --check

audit: ## known vulnerabilities of what runs (needs uv and the Internet; fails where it cannot ask)
	@command -v uvx >/dev/null || { echo "make audit needs uv (https://docs.astral.sh/uv)" >&2; exit 1; }
	uvx pip-audit --strict --require-hashes --disable-pip -r requirements/run.lock

lint: venv ## ruff, formatting, mypy, import direction
	@$(VENV)/python -m tools.run_checks --lint

rules: binaries ## the Prometheus rules, their tests, and the example configurations
	@echo "== rules"
	@$(BIN)/promtool check rules --lint=all --lint-fatal rules/*.yaml
	@$(BIN)/promtool check config rules/prometheus.yml
	@$(BIN)/amtool check-config rules/alertmanager.yml
	@$(BIN)/promtool test rules tests/rules/*.test.yaml

pictures: venv binaries ## run a scenario and draw the dashboards without Grafana (OUT=dir; about 7 minutes)
	@$(VENV)/python -m tools.grafana.scenario --out $(OUT)

screenshots: venv binaries browser ## take a picture of every page, wide and on a phone, light and dark (OUT=dir)
	@$(VENV)/python -m tests.browser --out $(if $(filter file,$(origin OUT)),.build/screenshots,$(OUT))

incident-pictures: venv browser ## take pictures of every incident, on a phone, beside status and messages (OUT=dir)
	@$(VENV)/python -m tests.incidents --out $(if $(filter file,$(origin OUT)),.build/incidents,$(OUT))

readme-pictures: venv binaries browser ## regenerate the pictures of README.md in docs/pictures (about 12 minutes)
	@$(VENV)/python -m tests.browser.pictures

alerts: venv binaries ## trigger the fault behind every alert, and write docs/alerts.md (about 8 minutes)
	@$(VENV)/python -m campaigns.alerts --write

dashboards: venv binaries ## play the demo in two clusters, ask every query of the dashboards with both versions of Prometheus, compare sums with the API (ten minutes)
	@$(PYTHON) -m tools.fetch_binaries --newer || echo "going on with one version of Prometheus"
	@$(VENV)/python -m campaigns.dashboards

victoria: venv binaries ## compare rules, dashboards and queries on VictoriaMetrics with Prometheus, and play the demo on it (half an hour; ONLY=word)
	@$(PYTHON) -m tools.fetch_binaries --victoria-metrics
	@$(VENV)/python -m tests.victoria $(ONLY)
	@$(VENV)/python -m tests.victoria --demo

format: venv ## sort imports and format
	@$(VENV)/ruff check -q --fix-only .
	@$(VENV)/ruff format .

lock: ## re-lock requirements/*.lock from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv (https://docs.astral.sh/uv)" >&2; exit 1; }
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 \
		--no-header pyproject.toml --group dev --extra postgres -o requirements/dev.lock
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 \
		--no-header pyproject.toml --extra postgres -o requirements/run.lock
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 \
		--no-header --group build -o requirements/build.lock
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 \
		--no-header --group contract -o requirements/contract.lock
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-emit-find-links --python-version 3.11 \
		--no-header --group site -o requirements/site.lock

generate: venv kubectl ## write every generated file anew: pages, dashboards, manifests, messages (one alone: python -m tools.generate NAME)
	@$(VENV)/python -m tools.generate

clean: ## remove everything that was made or fetched
	rm -rf .build .venv *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer was not found; name one: make PYTHON=/path/to/python" >&2; exit 1; }

venv: python
	@$(PYTHON) -m tools.make_venv

run-venv: python
	@$(PYTHON) -m tools.make_venv --run

binaries: python
	@$(PYTHON) -m tools.fetch_binaries

browser: python
	@$(PYTHON) -m tools.fetch_chromium

kubectl: venv
	@$(VENV)/python -m tools.fetch_kubectl
	@$(VENV)/python -m tools.fetch_busybox
