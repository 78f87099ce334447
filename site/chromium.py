"""How the site's programs launch the Chromium that is installed."""

from __future__ import annotations

import shutil
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# In a container one is root, for whom there is no sandbox, and /dev/shm is small.
ARGS = ["--no-sandbox", "--disable-dev-shm-usage"]


def installed() -> dict[str, Any]:
    """Return what Playwright's ``chromium.launch`` is to be called with.

    Raises FileNotFoundError if none is installed, and says where it comes from.
    """
    for program in filter(None, map(shutil.which, NAMES)):
        return {"executable_path": program, "args": ARGS}
    raise FileNotFoundError(
        "Chromium is not installed (Debian: apt-get install chromium)"
    )
