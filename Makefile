# `make help` lists every target with its comment.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# conftest.py puts the files that take longest first
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=1200
CACHES := .pytest_cache .mypy_cache .ruff_cache .hypothesis
# what is installed, by content: a new checkout of the same files changes nothing
stamp = .venv/$(1)-$(firstword $(shell cat $(2) 2>/dev/null | cksum))
installed = rm -f .venv/$(1)-* && touch $@
READY := $(call stamp,ready,constraints.txt pyproject.toml)
SITE := $(call stamp,site,constraints.txt pyproject.toml)

timed = @start=$$(date +%s); $(1) && \
	echo "make $(patsubst $(READY),setup,$@): $$(($$(date +%s) - start)) s"

.PHONY: help setup llm run test check quick notebooks exercise lab student homework questions grade site pdf constraints train bench everywhere mutants fuzz clean

help:  ## list the targets (the default)
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 19

setup: $(READY)  ## create .venv and install everything into it, once

$(READY):
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 14) or \
	sys.exit("Python 3.11 to 3.14 is needed, $(PYTHON) is %d.%d; name another: make PYTHON=python3.11" % v); \
	v > (3, 13) and print("Python 3.14 is untested; 3.11 to 3.13 are tested.")'
	@echo "Installing into .venv, once: about 2 GB on disk, and more with CUDA."
	@$(PYTHON) -m venv .venv
# without a GPU, this is the PyTorch without CUDA
	@$(PIP) uv && $(BIN)/python -m uv pip install --python $(BIN)/python -c constraints.txt --torch-backend auto torch || \
	echo "Couldn't choose the PyTorch for this machine, so here comes pip's (on Linux, with 4 GB of CUDA)."
	$(call timed,$(PIP) -e ".[tools]" && $(call installed,ready))

run: $(READY)  ## execute all chapters into build/notebooks and sum up what they show (7 to 20 minutes)
	$(call timed,$(BIN)/python tools/run_notebooks.py --into build/notebooks)

test: $(SITE)  ## run check and all tests, and compare every notebook with its outputs (10 to 30 minutes on two cores)
	$(call timed,$(BIN)/python tools/check.py && $(PYTEST) $(NBVAL) tests notebooks)

check: $(READY)  ## verify in seconds that chapters, notebooks, and module agree; writes nothing
	$(call timed,$(BIN)/python tools/check.py)

quick: $(READY)  ## run check and the fast tests (a few minutes)
	$(call timed,$(BIN)/python tools/check.py && $(PYTEST) -m "not slow" tests)

notebooks: $(READY)  ## after you edit a chapter: write the module and the stale notebooks
	$(call timed,$(BIN)/python tools/run_notebooks.py && $(BIN)/python tools/translations.py)

llm: $(READY)  ## fetch the language model of chapter 8 (93 MB, once, into your cache)
	@$(BIN)/python -m transformer_workshop.base.smollm

exercise: $(READY)  ## begin a new exercise, as in N=8.4 NAME=two_words; says what to fill in
	@$(BIN)/python tools/exercises.py --new "$(N)" "$(NAME)"

lab: $(READY)  ## open your copy of the chapters, in my/ (IN=zh: Chinese; RENEW=1: new copies; LAB=options)
	@$(BIN)/python tools/lab.py $(if $(IN),--$(IN)) $(if $(RENEW),--renew) $(LAB)

student: $(READY)  ## write build/student, a copy of the course without solutions to hand out
	$(call timed,$(BIN)/python tools/make_student.py)

homework: $(READY)  ## write build/homework/NAME from CHAPTERS=1,2 or EXERCISES=1.4,bleu (SEED=, STUDENTS=file)
	$(call timed,$(BIN)/python teaching/homework.py --chapters "$(CHAPTERS)" \
	--exercises "$(EXERCISES)" --seed "$(SEED)" $(if $(NAME),--name "$(NAME)") $(if $(STUDENTS),--students "$(STUDENTS)"))

questions: $(READY)  ## write build/questions: sixty questions for Moodle and Canvas, and an exam
	$(call timed,$(BIN)/python teaching/questions.py $(if $(SEED),--seed "$(SEED)"))

grade: $(READY)  ## grade the notebooks in IN=folder into build/grades/NAME (DUE=2027-01-31T23:59, STUDENTS=file)
	$(if $(IN),,$(error IN= names the folder with a folder for each student))
	$(call timed,$(BIN)/python teaching/grade.py "$(IN)" $(if $(NAME),--name "$(NAME)") $(if $(DUE),--due "$(DUE)") \
	$(if $(STUDENTS),--students "$(STUDENTS)"))

site: $(SITE)  ## build the web site into build/site, without a network (SOLUTIONS=no or a date, TRANSLATOR=no)
	$(call timed,$(BIN)/python site/build.py $(if $(URL),--url "$(URL)") \
	$(if $(SOLUTIONS),--solutions "$(SOLUTIONS)") $(if $(TRANSLATOR),--translator "$(TRANSLATOR)"))

pdf: site  ## print each chapter of the site to build/pdf (Chromium, about 2 minutes)
	$(call timed,$(BIN)/python site/pdf.py)

$(SITE): | $(READY)
	@$(PIP) -e ".[site]" && $(call installed,site)

constraints: $(READY)  ## choose a version of each package in pyproject.toml (UPGRADE=package: its newest)
	$(call timed,$(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --fork-strategy fewest \
	--all-extras --no-emit-package annotated-transformer --no-annotate --custom-compile-command "make constraints" \
	$(if $(UPGRADE),--upgrade-package $(UPGRADE)) -o constraints.txt pyproject.toml)

# less time for memory: chapter 93
train: export GLIBC_TUNABLES = glibc.malloc.hugetlb=1
train: export LD_PRELOAD = $(firstword $(wildcard /usr/lib/*/libtcmalloc_minimal.so.4))
train: $(READY)  ## train on Multi30k into runs/multi30k-2026 (2 cores, half an hour to an hour)
	$(call timed,$(BIN)/python annotated_transformer.py train --dataset multi30k --config 2026)

bench: $(READY)  ## compare training and decoding speed with other toolkits (two idle cores, 20 minutes)
	$(call timed,$(BIN)/python benchmarks/training.py && \
	$(BIN)/python benchmarks/training.py --config base && \
	$(BIN)/python benchmarks/decoding.py && $(BIN)/python benchmarks/engine.py && \
	$(BIN)/python images/draw_speed.py)

# Environment variables choose kernels that round as other processors do.
everywhere: $(READY)  ## compare the chapters on four simulated processors, and with shaken weights (20 minutes)
	@for processor in THIS=1 ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE \
	"ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE" DISTURBED=shaken; do \
	echo "$$processor"; env $$processor $(PYTEST) $(NBVAL) -q notebooks/0*.ipynb || failed=1; \
	done; exit $$failed

mutants: $(READY)  ## plant each known fault in a copy of the code and check that a test fails (10 minutes)
	$(call timed,$(BIN)/python tests/mutants.py)

fuzz: $(READY)  ## try 2,000 bad inputs; each must give a clear one-line error and lose no data (2 minutes)
	$(call timed,CASES=30 $(PYTEST) tests/workshop/test_fuzz.py)

clean:  ## remove everything that make wrote, except your training runs in runs/
	@rm -rf .venv build *.egg-info $(CACHES)
	@find . -path ./runs -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -print0 | xargs -0 rm -rf
	@if [ -d runs ]; then echo "Your trainings in runs/ are left; delete that folder yourself."; fi
