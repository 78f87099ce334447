"""Copies of the chapters that set themselves up in Google Colab, and links to run one.

Colab opens notebooks from a branch on GitHub, but brings only the notebook. A copy
therefore begins with a cell that fetches the repository and installs packages. The
copies go to a branch of their own, under the names that the chapters have in ``main``.
"""

import re
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

import nbformat
from nbformat.v4 import new_code_cell

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
from links import LINK  # noqa: E402

BRANCH = "colab"  # .github/workflows/test-and-publish.yml pushes it
# These stay as Colab has them: to replace one that is loaded takes a restart.
COLABS_OWN = {"torch", "numpy", "pandas", "pillow", "setuptools"}
FIRST_CELL = """\
# Once per session: fetch the repository and install the packages (a minute or two).
import sys
from pathlib import Path

if not Path("/content/{name}").exists():
    !git clone --quiet --depth 1 https://github.com/{repo} /content/{name}
    %pip install --quiet {packages}
%cd -q /content/{name}/{folder}
sys.path.insert(0, "/content/{name}")"""


def colab(repo: str, path: str) -> str:
    """Return the address that opens a chapter's copy in Colab."""
    where = f"{repo}/blob/{BRANCH}/{quote(path)}"
    return f"https://colab.research.google.com/github/{where}"


def binder(repo: str, path: str) -> str:
    """Return the address that opens a chapter on Binder."""
    return f"https://mybinder.org/v2/gh/{repo}/main?urlpath=lab/tree/{quote(path)}"


def packages() -> list[str]:
    """Return the exact versions of what the chapters use and Colab may lack."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    text = text.split("# used to keep chapters")[0]
    found = re.findall(r"(?m)^([\w-]+)(==\S+)", text)
    return [name + version for name, version in found if name not in COLABS_OWN]


def copy(chapter: Path, into: Path, repo: str) -> None:
    """Write a chapter's copy, whose links and pictures lead to published files."""
    folder = chapter.parent.relative_to(ROOT).as_posix()
    notebook = nbformat.read(chapter, 4)

    def published(found: re.Match) -> str:
        name, _, anchor = (found["to"] or "").partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return found[0]
        target = (chapter.parent / name).resolve()
        path = target.relative_to(ROOT).as_posix()
        if found[0].startswith("!"):
            link = f"https://raw.githubusercontent.com/{repo}/main/{quote(path)}"
        elif re.fullmatch(r"notebooks[\w-]*/\d\w+\.ipynb", path):
            link = colab(repo, path)
        else:
            link = f"https://github.com/{repo}/blob/main/{quote(path)}"
            link += anchor and f"#{anchor}"
        return found[0].removesuffix(f"({found['to']})") + f"({link})"

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(published, cell.source)
    first = FIRST_CELL.format(
        repo=repo, name=repo.partition("/")[2], folder=folder,
        packages=" ".join(packages()),
    )  # fmt: skip
    # An id of its own, the same in each build.
    notebook.cells.insert(0, new_code_cell(first, id="colab"))
    target = into / folder / chapter.name
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.validate(notebook)
    nbformat.write(notebook, target)


def write_copies(into: Path, repo: str) -> None:
    """Write the copies of all chapters in each language into an empty folder."""
    shutil.rmtree(into, ignore_errors=True)
    for chapter in sorted(ROOT.glob("notebooks*/[0-9]*.ipynb")):
        copy(chapter, into, repo)
    (into / "README.md").write_text(
        f"Copies of the chapters of https://github.com/{repo} for Google Colab. They "
        "are\ngenerated; don't edit them here.\n",
        encoding="utf-8",
    )
