"""What the chapters say of trainings holds in all stored runs, with margin."""

import ast
import json
import math
import re

import pytest
from chapters import ROOT, chapters, name, read
from findings import THIS, found_in, table

from transformer_workshop.lab.findings import all_runs, finding

STORED = json.loads((ROOT / "results/findings.json").read_text(encoding="utf-8"))
ROWS = [(chapter, what) for chapter, found in STORED.items() for what in found]


@pytest.mark.parametrize("chapter, what", ROWS)
def test_a_bound_lies_well_outside_everything_that_was_measured(chapter, what):
    """Let a quarter of the spread, or more, be between the worst run and the bound."""
    entry = STORED[chapter][what]
    values = sum(entry["simulated"].values(), entry["values"])
    margin = (max(values) - min(values)) / 4
    if entry["at_least"] is not None:
        assert min(values) - margin > entry["at_least"]
    if entry["at_most"] is not None:
        assert max(values) + margin < entry["at_most"]


def test_a_bound_holds_only_for_what_is_a_number():
    finding("a loss", 0.5, at_least=0.5, at_most=0.5)
    finding("a loss", 0.4, at_most=0.5), finding("a loss", 0.6, at_least=0.5)
    for value, bound in (
        (0.4, {"at_least": 0.5}), (0.6, {"at_most": 0.5}),
        (math.nan, {"at_least": 0.5}), (math.nan, {"at_most": 0.5}),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="a loss is"):
            finding("a loss", value, **bound)


@pytest.mark.parametrize("chapter", STORED)
def test_no_two_seeds_gave_the_same_digits(chapter):
    by_seed = list(zip(*(entry["values"] for entry in STORED[chapter].values())))
    assert len(set(by_seed)) == len(by_seed) > 1


def test_all_runs_are_those_of_different_seeds():
    for chapter, what in ROWS:
        assert all_runs(chapter, what) == STORED[chapter][what]["values"]
    assert math.isnan(*all_runs(ROWS[0][0], "what was never measured"))


TOY = """# A chapter

```python
import torch
from transformer_workshop.lab.findings import finding
```

## Its section

```python
torch.manual_seed(0)
finding("a random number", torch.rand(()))
vectors = torch.backends.cpu.get_cpu_capability() != "DEFAULT"
finding("vectors", vectors, at_least=0)
```
"""


def test_seeds_differ_and_a_simulated_processor_is_stored_as_one(tmp_path):
    source = tmp_path / "01_toy.md"
    source.write_text(TOY)
    runs = [(THIS, 0), (THIS, 1), ("no vectors", 0)]
    found = table({run: found_in(source, [], *run) for run in runs})
    number, vectors = found["a random number"], found["vectors"]
    assert len(set(number["values"])) == 2
    assert [len(number["values"]), len(number["simulated"]["no vectors"])] == [2, 1]
    assert vectors["simulated"] == {"no vectors": [0]}
    assert [vectors["at_least"], vectors["at_most"]] == [0, None]


def pattern(text: ast.expr) -> str:
    """Return a regular expression for what a finding may be called."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(
        re.escape(part.value) if isinstance(part, ast.Constant) else ".+"
        for part in parts
    )


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
                        assert bound.value.value in is_stored
    for what in stored:
        assert any(re.fullmatch(each, what) for each in said), what
