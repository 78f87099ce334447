"""How pytest runs here: one thread, this tree's module, no quiet skipping."""

import io
import os
import sys
from collections import Counter
from pathlib import Path

# Before anything imports torch, and inherited by kernels and subprocesses.
os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parent
os.environ["PYTHONPATH"] = str(ROOT)
# In kernels, which nbval starts, trainings can come out as they might elsewhere.
os.environ["PYTHONSTARTUP"] = (
    str(ROOT / "tools" / "disturbed.py") if "DISTURBED" in os.environ else ""
)
os.environ["ANNOTATED_TRANSFORMER_STRICT"] = "1"  # a finding that is missed fails

# No test, and nothing that a test starts, may reach beyond this machine.
for protocol in ("http_proxy", "https_proxy"):
    os.environ[protocol] = os.environ[protocol.upper()] = "http://127.0.0.1:9"
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from nbval.plugin import IPyNbCell, IPyNbFile  # noqa: E402

CHART = "application/vnd.vegalite.v5+json"
DATA = os.environ.get("ANNOTATED_TRANSFORMER_DATA")
MAY_SKIP = not (os.environ.get("CI") or DATA)

# The same examples every time, and no folder of them left behind.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None
)
hypothesis.settings.load_profile("repeatable")


def refuse_skip(report) -> None:
    """Turn a skipped test into a failed one if everything it needs should be here."""
    if report.skipped and not MAY_SKIP and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if report.longrepr else "no reason given"
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped here: {reason}"


def pytest_collection_modifyitems(items):
    """Let chapters use what they export; put files that take long first.

    Then two processes end at about one time.
    """
    without = {}  # notebooks, and what they need that isn't here
    for item in items:
        tags = item.cell.metadata.get("tags") if isinstance(item, IPyNbCell) else None
        if "export" in (tags or []):
            from export_module import with_import

            item.cell.source = with_import(item.cell.source)
        elif "llm" in (tags or []):
            from chapters import lacks as chapter_lacks

            without[item.path] = chapter_lacks(item.path.with_suffix(".md"))
    for item in items:
        if needed := without.get(item.path):  # the one chapter that can be skipped
            item.add_marker(pytest.mark.skip(reason=f"needs {needed}"))
    cells = Counter(item.path for item in items if isinstance(item, IPyNbCell))
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (cells[item.path], slow[item.path]), reverse=True)


def lacks(item) -> str:
    """Return what a test needs that isn't here, by its marks; "" if nothing."""
    if item.get_closest_marker("multi30k") and not DATA:
        return "Multi30k, in a folder that ANNOTATED_TRANSFORMER_DATA names"
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        return "a GPU that PyTorch can use"
    return ""


def pytest_runtest_setup(item):
    if needed := lacks(item):
        pytest.skip(f"needs {needed}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    # tests/book/test_text.py counts nbval-skip tags
    if not isinstance(item, IPyNbCell) and not lacks(item):
        refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if isinstance(collector, IPyNbFile):
        # A chart's specification is not compared; its printed summary is.
        collector.skip_compare += (CHART,)
    refuse_skip(report)
    return report


@pytest.fixture
def feed(monkeypatch):
    """Put bytes on standard input."""

    def put(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put
