# Every target makes what it needs, the virtual environment included.
#   make check     lint, types, unit tests: the inner loop
#   make test      what every change must pass: also the program, and one whole pass on virtual machines
#   make test-lab  the rest of the virtual cluster's tests; make test-all: both
#   make test-hours  each shape of the cluster, fleets of four, the gate once more, ansible-test: ten minutes to an hour each
#   make matrix    the unit tests, a plan and a validate on each Python with each ansible-core that is supported
#   make gpu       ranks over NCCL, where there is an NVIDIA GPU
#   make site      the documentation as a web site, in .site; without a connection
#   make wheel     the wheel that images of container/ are built from
#   make package   wheel, source and collection, and what their registries check; from a package index
#   make generate  write the files that repeat what is declared once
#   make demo      the whole job on a virtual cluster, step by step
#   make lab       a virtual cluster, up and ready
#   make lock      pin the newest dependencies that pyproject.toml allows

PYTHON ?= python3
VENV := .venv
TORCH := .torch
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export ANSIBLE_HOME := $(CURDIR)/.ansible
# Tests start the program a thousand times: without, each start compiles it anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: generate site wheel venv lab-tools test-tools demo lab check lint unit program pass labs long test test-lab test-all test-hours matrix gpu gpu-there lock clean package

# As requires-python in pyproject.toml; pip would say so only after it made half an environment.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

venv: $(VENV)/.made

$(VENV)/.made: requirements.lock pyproject.toml
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "$(PYTHON) is no Python 3.11 or newer; run: make $(or $(MAKECMDGOALS),venv) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(call debian,python3-venv)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# As root, install Debian packages; as a user, say which.
debian = if [ "$$(id -u)" = 0 ]; \
	then apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $(1); \
	else echo "missing packages; as root, run: apt-get install $(1)" >&2; exit 1; fi

lab-tools: venv
	@missing=$$($(BIN)/python -m rdmaprov.lab.tools); \
	[ -z "$$missing" ] || { $(call debian,$$missing); }

# What the tests make a signed repository of packages with, a daemon to reach this machine by, the
# browser that opens reports, a Slurm that gives made-up nodes, and an InfiniBand subnet.
test-tools: lab-tools
	@missing=; for each in tc=iproute2 nsenter=util-linux sshd=openssh-server dpkg-scanpackages=dpkg-dev gpg=gnupg chromium=chromium chromedriver=chromium-driver \
	dnf=dnf rpmbuild=rpm createrepo_c=createrepo-c lldpd=lldpd lldpad=lldpad munged=munge slurmctld=slurmctld slurmd=slurmd srun=slurm-client \
	bwrap=bubblewrap buildah=buildah ibsim=ibsim-utils opensm=opensm ibnetdiscover=infiniband-diags; do \
	PATH=$$PATH:/usr/sbin command -v $${each%=*} > /dev/null || missing="$$missing $${each#*=}"; done; \
	[ -z "$$missing" ] || { $(call debian,$$missing); }

demo: lab-tools
	$(BIN)/python lab/demo.py

lab: lab-tools
	$(BIN)/rdmaprov lab up

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/yamllint --strict .
	$(BIN)/ansible-lint --offline --strict

UNIT = tests/gpu tests/roles tests/unit tests/validate
WORKERS = auto
BESIDE = -q -n $(WORKERS) --dist worksteal
BEHIND = $(BIN)/python -m tools.behind
WITHOUT_LABS = lab or browser or gpu or long or hours

# How many examples of each property: `make test` has all of them.
PROFILE ?= check
test: export PROFILE = test

# What unit tests write goes to memory, where there is room and programs may run from it.
MEMORY = $(shell f=$$(mktemp -p /dev/shm 2> /dev/null) && cp /bin/true $$f && chmod u+x $$f && $$f \
	&& [ "$$(df --output=avail /dev/shm | tail -1)" -gt 4000000 ] && echo /dev/shm; rm -f $$f)

# Without what starts pytest, Ansible or the program, or makes large fleets: `program` has it. In a
# fresh checkout all is compiled once before, which otherwise each worker does for itself.
unit: venv
	@[ -d tests/__pycache__ ] || $(BIN)/pytest --collect-only -q $(UNIT) > /dev/null || true
	PYTEST_DEBUG_TEMPROOT=$(MEMORY) $(BIN)/pytest $(BESIDE) --hypothesis-profile $(PROFILE) -m "not ($(WITHOUT_LABS) or program)" $(UNIT)

# The unit tests that `unit` leaves out, the program as its users run it, and the acceptance on nodes
# of this machine's kernel. The pass, beside which it runs, mostly waits for one node: it comes first.
# Files without such tests are not collected: each worker would do so.
PROGRAM = $(shell grep -rl --include 'test_*.py' mark.program $(UNIT)) tests/cli tests/namespaces
# Four workers more than processors, for what waits.
program: WORKERS = $(shell expr $$(nproc) + 4)
program: test-tools
	$(BEHIND) $(BIN)/pytest $(BESIDE) --durations=20 -m "program and not ($(WITHOUT_LABS))" $(PROGRAM)

# Side by side; what each says is printed when it ends, and a failure of either is one of both.
check: venv
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint unit

# What repeats a thing that is declared once. The tests fail where it is not current.
generate: venv
	$(BIN)/python -m tools.generate
	$(BIN)/rdmaprov schema --markdown > docs/variables.md
	$(BIN)/python -m rdmaprov.contract.document > docs/contract.md
	$(BIN)/python -m rdmaprov.finding.document > docs/findings.md
	$(BIN)/python -m rdmaprov.cli.document > docs/cli.md
	$(BIN)/python -m rdmaprov.cli.document share
	$(BIN)/python -m tests.validate.document > docs/checks.md
	$(BIN)/python -m tests.published > docs/measurements.md
	$(BIN)/python -m tests.unit.helpers.doc_outputs
	$(BIN)/python -m tests.unit.helpers.museum_document > docs/machines.md
	$(BIN)/python -m tests.unit.helpers.mutants

# Its warnings, such as a link to a page that is not there, are errors.
site: venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What the images of container/ are built from: docs/containers.md.
wheel: venv
	rm -rf container/dist
	$(BIN)/python -m hatchling build -t wheel -d container/dist

# Their checkers are no part of requirements.lock: nothing else needs them.
package: venv
	rm -rf dist .package
	$(PYTHON) -m venv .package
	.package/bin/python -m pip install --quiet antsibull-changelog check-wheel-contents galaxy-importer reuse twine
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/ansible-galaxy collection build . --output-path dist
	.package/bin/twine check --strict dist/rdmaprov-*.whl dist/rdmaprov-[0-9]*.tar.gz
	.package/bin/check-wheel-contents dist
	.package/bin/reuse lint
	.package/bin/antsibull-changelog lint
	cd dist && PATH=$(CURDIR)/.package/bin:$$PATH python -m galaxy_importer.main rdmaprov-node-*.tar.gz

# The whole pass on virtual machines, from factory nodes to an accepted fleet; and the pages.
pass: test-tools
	$(BIN)/pytest -v -m "lab or browser" tests/lab/test_pass.py tests/report

test: test-tools check
	$(MAKE) --jobs=2 --output-sync=target pass program

# Two labs at a time: a lab under emulation mostly keeps one processor busy, and often waits. What needs
# no lab runs beside them. Not beside the unit tests, some of which have to tell what is slow from what hangs.
LABS = $(BIN)/pytest tests/lab -n 2 --dist loadscope --no-loadscope-reorder -v --durations=40

labs: test-tools
	$(LABS) -m "(lab or long) and not hours" --ignore tests/lab/test_pass.py

long: test-tools
	$(BIN)/pytest tests --ignore tests/lab -n 2 --dist worksteal -v --durations=40 -m "long and not hours"

test-lab: test-tools
	$(MAKE) --jobs=2 --output-sync=target labs long

test-all: test
	$(MAKE) test-lab

test-hours: test-tools
	$(LABS) tests/namespaces tests/cli tests/unit/isolation -m hours

# All unit tests, and a node behind sshd. Some of the pairs: make matrix PAIRS="3.12/2.20 3.13/2.21"
matrix: venv
	$(BIN)/python -m tools.matrix $(addprefix --pair=,$(PAIRS)) -- $(BESIDE) -m "not ($(WITHOUT_LABS))" $(UNIT)

# Ranks side by side, as each test mostly waits, where each can have a network of its own.
NETWORKS = $(shell unshare --net true 2> /dev/null && echo --numprocesses 3)

# Asked for by name, so a machine without a GPU fails, before anything is made. What ranks write is
# kept in runs/gpu, or where RDMAPROV_GPU_LOGS says.
gpu: gpu-there venv $(if $(RDMAPROV_TORCH_PYTHON),,$(TORCH)/.made)
	RDMAPROV_TORCH_PYTHON=$(or $(RDMAPROV_TORCH_PYTHON),$(CURDIR)/$(TORCH)/bin/python) sh -c '\
	$(BIN)/pytest -v -m gpu $(NETWORKS) tests/gpu --ignore tests/gpu/test_device.py; ranks=$$?; \
	$(BIN)/pytest -v -m gpu tests/gpu/test_device.py && exit $$ranks'

gpu-there:
	@$(PYTHON) tests/gpu/machine.py

# torch with NCCL, of the version that the lab's nodes have: some 5 GiB.
$(TORCH)/.made: lab/recipe.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet \
	  "$$($(PYTHON) -c 'import tomllib; print(tomllib.load(open("lab/recipe.toml", "rb"))["torch"]["requirement"])')"
	@touch $@

lock: venv
	$(BIN)/pip-compile --quiet --extra dev --allow-unsafe --generate-hashes --no-emit-index-url --no-emit-options \
	  --strip-extras --upgrade --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) $(TORCH) .matrix .package .mypy_cache .pytest_cache .ruff_cache .ansible .site dist
