"""What pip installs: textbook, workshop, captions model, and a command that works."""

import doctest
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.shipped_models import (
    CAPTIONS_MODEL,
    DEFAULT_MODEL,
    default_model,
    model_folder,
)
from transformer_workshop.cli.terminal import VERSION, main

ROOT = project_folder()
SOURCES = (
    "annotated_transformer.py",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
)
WORKSHOP = "transformer_workshop"
MODEL = "annotated_transformer_captions"
STUBS = "annotated_transformer-stubs"


def build(source: Path, what: str, into: Path) -> Path:
    """Build an sdist or a wheel of a folder, as pip does; return its path."""
    into.mkdir()
    code = f"import setuptools.build_meta as b; b.build_{what}({str(into)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return next(into.iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from the sdist, and that from a copy of the project."""
    folder = tmp_path_factory.mktemp("package")
    for name in (CAPTIONS_MODEL, WORKSHOP):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / "copy" / name, ignore=skip)
    for name in SOURCES:
        shutil.copy(ROOT / name, folder / "copy")
    archive = build(folder / "copy", "sdist", folder / "sdist")
    unpack = [sys.executable, "-m", "tarfile", "-e", str(archive), str(folder)]
    subprocess.run(unpack, check=True, capture_output=True)
    [source] = folder.glob("annotated_transformer-*")
    return build(source, "wheel", folder / "wheel")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel, without what it depends on, into a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    options = "--quiet --no-deps --no-index --disable-pip-version-check".split()
    command = [sys.executable, "-m", "pip", "install", *options, "--target"]
    subprocess.run([*command, str(folder), str(wheel)], check=True, timeout=1200)
    return folder


def test_the_wheel_has_code_marked_as_typed_and_a_model_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        model = {f"{MODEL}/{path.name}" for path in (ROOT / CAPTIONS_MODEL).iterdir()}
        sources = (ROOT / WORKSHOP).rglob("*.py")
        code = {path.relative_to(ROOT).as_posix() for path in sources}
        typed = f"{WORKSHOP}/py.typed"
        module, stubs = "annotated_transformer.py", f"{STUBS}/__init__.pyi"
        assert files == {module, stubs, typed} | code | model
        assert archive.read(stubs) == archive.read(module)
        [path] = (x for x in archive.namelist() if x.endswith("METADATA"))
        metadata = Parser().parsestr(archive.read(path).decode())
    assert metadata["Version"] == VERSION
    required = [x for x in metadata.get_all("Requires-Dist") if ";" not in x]
    needed = {
        "charset-normalizer", "numpy", "safetensors", "spacy", "tokenizers", "torch",
        "tqdm",
    }  # fmt: skip
    assert {re.split("[<>]", x)[0] for x in required} == needed


def run_installed(installed, folder, *command):
    """Run a command in an empty folder, with what was installed and nothing of ours."""
    return subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1200,
    )


@pytest.mark.slow
def test_it_translates_outside_the_repository_and_says_with_which_model(
    installed, tmp_path
):
    program = installed / "bin" / "annotated-transformer"
    done = run_installed(installed, tmp_path, program, "translate", "Ein Hund läuft.")
    assert done.returncode == 0 and "dog" in done.stdout
    [line] = done.stderr.splitlines()
    assert "captions model" in line and "--model" in line
    help_text = run_installed(installed, tmp_path, program, "translate", "--help")
    assert MODEL in " ".join(help_text.stdout.split())


NAMED = """
from transformer_workshop.models.translator import load_translator
assert "dog" in load_translator("captions", "cpu").translate(["Ein Hund läuft."])[0]
try:
    load_translator("caption")
except Exception as error:
    print(error)
"""


@pytest.mark.slow
def test_a_model_is_loaded_by_its_name_where_it_is_installed(installed, tmp_path):
    done = run_installed(installed, tmp_path, sys.executable, "-c", NAMED)
    assert done.returncode == 0, done.stderr
    assert "Did you mean captions?" in done.stdout
    assert "--" not in done.stdout


def test_a_wheel_that_is_not_installed_says_why_it_has_no_model(wheel, tmp_path):
    code = "from transformer_workshop.models.translator import load_translator as load"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; load('captions')"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(wheel)},
        capture_output=True,
        encoding="utf-8",
    )
    assert f"From the zip file {Path(wheel).name}" in done.stderr


def test_a_folder_comes_before_a_model_of_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert model_folder("captions") == ROOT / CAPTIONS_MODEL
    assert model_folder("runs/captions") == Path("runs/captions")
    (tmp_path / "captions").mkdir()
    assert model_folder("captions") == Path("captions")


def test_the_repository_uses_its_best_model_and_does_not_announce_it(capfd):
    assert default_model() == ROOT / DEFAULT_MODEL
    assert main(["translate", "--device", "cpu", "Ein Hund läuft."]) == 0
    out, err = capfd.readouterr()
    assert "dog" in out and err == ""


def test_one_version_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version, date = re.search(r"^## (\S+) \((\S+)\)$", changes, re.M).groups()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert version == VERSION == citation["version"]
    assert date == str(citation["date-released"])


def test_every_package_has_a_version_that_the_project_allows():
    """If it fails: `make constraints`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = dict(line.split()[0].split("==") for line in lines if "==" in line)
    for line in [*project["dependencies"], *itertools.chain(*extras)]:
        requirement = Requirement(line)
        if requirement.name != project["name"]:
            pin = pins[canonicalize_name(requirement.name)]
            assert pin in requirement.specifier, requirement


@pytest.mark.slow
def test_the_examples_of_the_api_page_give_what_it_says():
    page = str(ROOT / "site" / "api.md")
    results = doctest.testfile(page, module_relative=False, encoding="utf-8")
    assert results.attempted > 100 and results.failed == 0
