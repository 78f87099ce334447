"""Copy the chapters into my/, and open the copy in JupyterLab (`make lab`).

    python tools/lab.py [--zh] [--renew] [options of JupyterLab]

A copy that you haven't changed follows the chapter. One that you have is left alone;
after `--renew` it has another name, and the chapter as it is now takes its place.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = "*.ipynb", "solutions/*.ipynb", "*.py", "glossary.md", "messages.toml"
RECORD = ".copied.json"  # what each file was when it was copied


def content(path: Path) -> str:
    """Return a digest of a file; of a notebook, of its cells without their outputs."""
    data = path.read_bytes()
    if path.suffix == ".ipynb":
        try:
            cells = json.loads(data)["cells"]
            texts = ["".join(cell["source"]).strip() for cell in cells]
            data = "\0".join(filter(None, texts)).encode()
        except (ValueError, KeyError, TypeError):
            pass  # a damaged notebook is someone's, too
    return hashlib.sha256(data).hexdigest()


def copy(source: Path, into: Path, renew: bool = False) -> list[str]:
    """Bring a folder's copy up to date; return which files are older than theirs.

    What has been changed in the copy is never overwritten. With ``renew``, it gets
    another name, and what is returned says so.
    """
    record = into / RECORD
    before = json.loads(record.read_text("utf-8")) if record.exists() else {}
    copied, older = {}, []
    for path in sorted(path for each in COPIED for path in source.glob(each)):
        name = path.relative_to(source).as_posix()
        mine, now = into / name, content(path)
        if mine.exists() and content(mine) not in (before.get(name), now):
            if before.get(name) == now:  # changed, and the chapter is the same
                copied[name] = now
                continue
            if not renew:
                older.append(name)
                copied |= {name: before[name]} if name in before else {}
                continue
            older.append(f"{name} (yours is now {aside(mine).name})")
        if not mine.exists() or content(mine) != now:
            mine.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, mine)
        copied[name] = now
    record.write_text(json.dumps(copied, indent=1), encoding="utf-8")
    return older


def aside(path: Path) -> Path:
    """Rename a file to a name that is free; return it."""
    number = 1
    while (other := path.with_stem(f"{path.stem}-mine-{number}")).exists():
        number += 1
    return path.rename(other)


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="Other options go to JupyterLab: python -m jupyterlab --help",
        allow_abbrev=False,
    )
    parser.add_argument("--zh", action="store_true", help="the Chinese chapters")
    about = "newer versions of what you changed; yours get other names"
    parser.add_argument("--renew", action="store_true", help=about)
    chosen, rest = parser.parse_known_args(options)
    zh = "-zh" if chosen.zh else ""
    older = copy(ROOT / f"notebooks{zh}", ROOT / f"my{zh}", chosen.renew)
    if older and chosen.renew:
        print("New copies:", *older, sep="\n  ")
    elif older:
        print(
            f"There is a newer version of these files, which you have changed in "
            f"my{zh}/; `make lab RENEW=1` (or --renew) puts it there and keeps yours:",
            *older,
            sep="\n  ",
        )
    # A kernel says what to do when a name is missing after a restart.
    startup = {"PYTHONSTARTUP": str(ROOT / "tools" / "restarted.py")}
    lab = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={ROOT}", *rest]
    first = f"my{zh}/01_architecture.ipynb"
    try:
        return subprocess.run(
            [*lab, first], cwd=ROOT, env=startup | os.environ
        ).returncode
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
