"""What does a notebook need around its text: its folder, names, boxes for verdicts?

Importing it needs no other package, since none may be installed yet.
"""

import html
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

CHAPTERS = Path(__file__).resolve().parent.parent / "notebooks"
ALONE = """\
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from annotated_transformer import *
from transformer_workshop.exercises import check
"""  # what an exercise can use that runs by itself
BOX = (
    '<div style="border-left: 4px solid; padding: 0.1em 1em; max-width: 45em; '
    'overflow-wrap: break-word"><p><b>{title}</b> {first}</p>{more}</div>'
)
MORE = "<details><summary>What the check found</summary><p>{}</p></details>"


def enter_folder() -> None:
    """Go to the chapters' folder, unless this one has what they need beside them.

    Raises FileNotFoundError where only the package is installed.
    """
    if Path("exercise_checks.py").exists():  # the chapters' folder, or a copy of it
        return
    if not (CHAPTERS / "exercise_checks.py").exists():
        raise FileNotFoundError(
            f"{CHAPTERS}: the chapters are not where this package is installed. "
            "Uninstall it (pip uninstall annotated-transformer), restart the kernel, "
            "and run this cell again: it says how to get them."
        )
    os.chdir(CHAPTERS)
    sys.path.insert(0, str(CHAPTERS))


def tell(line: str) -> None:
    """Print what a check says of a wrong answer; show it as a box in a notebook."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    if not hasattr(shell, "kernel"):  # a terminal, a test, a grader
        print(line)
        return
    plain = textwrap.fill(line, 80, break_long_words=False)
    shell.display_pub.publish({"text/plain": plain, "text/html": box(line)})


def box(line: str) -> str:
    """Return it as HTML: the hint first, and the rest on request."""
    line = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(line, quote=False))
    title, _, said = line.partition(": not yet: ")
    found, _, hint = said.partition(" Hint: ")
    first = hint[:1].upper() + hint[1:] or found
    more = MORE.format(found) if hint else ""
    return BOX.format(title=f"{title}: not yet.", first=first, more=more)
