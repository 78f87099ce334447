"""What the chapters say of trainings holds in all stored runs, with margin."""

import ast
import json
import math
import re

import pytest
from chapters import ROOT, chapters, name, read
from findings import only
from nbformat import v4

from transformer_workshop.lab.findings import all_runs, finding

STORED = json.loads((ROOT / "results/findings.json").read_text(encoding="utf-8"))
ROWS = [(chapter, what) for chapter, found in STORED.items() for what in found]


@pytest.mark.parametrize("chapter, what", ROWS)
def test_a_bound_lies_well_outside_everything_that_was_measured(chapter, what):
    """Let a quarter of the spread, or more, be between the worst run and the bound."""
    entry = STORED[chapter][what]
    assert len(entry["values"]) == 4 and all(entry["values"].values())
    values = [value for row in entry["values"].values() for value in row]
    margin = (max(values) - min(values)) / 4
    if entry["at_least"] is not None:
        assert min(values) - margin > entry["at_least"]
    if entry["at_most"] is not None:
        assert max(values) + margin < entry["at_most"]


def test_a_bound_holds_only_for_what_is_a_number():
    finding("a loss", 0.5, at_least=0.5, at_most=0.5)
    for value, bound in (
        (0.4, {"at_least": 0.5}), (0.6, {"at_most": 0.5}),
        (math.nan, {"at_least": 0.5}), (math.nan, {"at_most": 0.5}),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="a loss is"):
            finding("a loss", value, **bound)


def test_all_runs_are_those_of_all_processors():
    chapter, what = ROWS[0]
    assert len(all_runs(chapter, what)) == 32
    assert math.isnan(*all_runs(chapter, "what was never measured"))


def pattern(text: ast.expr) -> str:
    """Return a regular expression for what a finding may be called."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(
        re.escape(part.value) if isinstance(part, ast.Constant) else ".+"
        for part in parts
    )


def test_the_cells_of_one_section_come_with_imports_and_exported_cells():
    cells = [
        v4.new_code_cell("import torch"),
        v4.new_markdown_cell("## 1 First"),
        v4.new_code_cell("a = 1"),
        v4.new_code_cell("B = 2", metadata={"tags": ["export"]}),
        v4.new_markdown_cell("Text\n\n### The one\n\nText"),
        v4.new_code_cell("c = 3"),
        v4.new_markdown_cell("More text."),
        v4.new_code_cell("d = 4"),
        v4.new_markdown_cell("### Exercise"),
        v4.new_code_cell("e = 5"),
    ]
    kept = [cell.source.splitlines()[0] for cell in only("The one", cells)]
    assert kept == ["import torch", "B = 2", "c = 3", "d = 4"]


MEASURED = [path for path in chapters() if name(path) in STORED]


@pytest.mark.parametrize("path", MEASURED, ids=name)
def test_each_finding_of_a_chapter_was_measured_with_its_bounds(path):
    stored, said = STORED[name(path)], []
    for cell in read(path):
        calls = ast.walk(ast.parse(cell.source)) if cell.cell_type == "code" else ()
        for call in calls:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "finding":
                said.append(pattern(call.args[0]))
                own = [what for what in stored if re.fullmatch(said[-1], what)]
                assert own, f"run tools/findings.py: {ast.unparse(call.args[0])}"
                for bound in call.keywords:
                    if isinstance(bound.value, ast.Constant):
                        is_stored = {stored[what][bound.arg] for what in own}
                        assert is_stored == {bound.value.value}
    for what in stored:
        assert any(re.fullmatch(each, what) for each in said), what
