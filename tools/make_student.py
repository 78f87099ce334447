"""Write build/student: what a class gets to work with, without the solutions.

    python tools/make_student.py

The copy works by itself. It holds the chapters as notebooks and as text, the module,
the workshop, images, data, weights, the exercises' checks, and the lists of packages;
it holds no solutions, no tests, and no tools. Links to what is not there become plain
words.
"""

import argparse
import re
import shutil
from pathlib import Path

import nbformat
from chapters import NOTEBOOKS, ROOT, chapters, name, pair
from links import LINK
from run_notebooks import write

INTO = ROOT / "build" / "student"
FILES = (
    "annotated_transformer.py",
    "pyproject.toml",
    "constraints.txt",
    "LICENSE",
    "CITATION.cff",
    "notebooks/exercise_checks.py",
    "notebooks/glossary.md",
    "notebooks/jupytext.toml",
)
FOLDERS = (
    "transformer_workshop",
    "images",
    "data/captions",
    "models",
    "results",
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "draw*.py")
README = """\
# The Annotated Transformer: your copy

You need Python 3.11, 3.12, or 3.13 (3.14 is untested), but no GPU and no account. Once,
in this folder (about two minutes; on Windows, write `python` for `python3`, and
`.venv\\Scripts\\python` for `.venv/bin/python`):

```console
python3 -m venv .venv
.venv/bin/python -m pip install -c constraints.txt -e ".[chapters]"
```

On Linux, pip takes PyTorch for GPUs, which is several gigabytes. If you have no GPU,
run these two lines before the last one:

```console
.venv/bin/python -m pip install uv
.venv/bin/python -m uv pip install -c constraints.txt --torch-backend cpu torch
```

Then, every time:

```console
.venv/bin/python -m jupyterlab notebooks/01_architecture.ipynb
```

Chapters 1 to 7 have exercises next to the sections they belong to, and a list of them
at the end. Each is a cell to fill in; when you run it, its last line says whether the
answer is right, and if not, what is wrong with it. New terms are explained in
[notebooks/glossary.md](notebooks/glossary.md).
"""


def write_student(into: Path, root: Path = ROOT) -> list[Path]:
    """Write the copy into an empty folder; return the files written."""
    for file in FILES:
        if (root / file).exists():
            target = into / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / file, target)
    for folder in FOLDERS:
        if (root / folder).is_dir():
            shutil.copytree(root / folder, into / folder, ignore=LEFT_OUT)
    for source in chapters():
        for path in (source, pair(source)):
            shutil.copy(path, into / "notebooks" / path.name)
    (into / "README.md").write_text(README, encoding="utf-8")
    written = sorted(path for path in into.rglob("*") if path.is_file())
    for path in written:
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            path.write_text(without_dead_links(text, path.parent), encoding="utf-8")
        elif path.suffix == ".ipynb":
            notebook = nbformat.read(path, 4)
            for cell in notebook.cells:
                if cell.cell_type == "markdown":
                    cell.source = without_dead_links(cell.source, path.parent)
            write(notebook, path)
    return written


def without_dead_links(text: str, folder: Path) -> str:
    """Turn links to files that are not there, as seen from folder, into words."""

    def kept(link: re.Match) -> str:
        target = (link["to"] or "").partition("#")[0]
        if not target or re.match(r"[a-z]+:", target) or (folder / target).exists():
            return link[0]  # code, a heading in this text, a URL, a file
        return link["words"]

    return LINK.sub(kept, text)


def main() -> int:
    missing = [name(source) for source in chapters() if not pair(source).exists()]
    if missing:
        print(f"{', '.join(missing)}: not executed yet; run `make notebooks`")
        return 1
    shutil.rmtree(INTO, ignore_errors=True)
    (INTO / NOTEBOOKS.name).mkdir(parents=True)
    written = write_student(INTO)
    size = sum(path.stat().st_size for path in written)
    where = INTO.relative_to(ROOT)
    print(f"{where}: {len(written)} files, {size / 1e6:.0f} MB, no solutions")
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    raise SystemExit(main())
