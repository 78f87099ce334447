"""Importing: silent, offline, cheap; the textbook alone, with torch alone."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import annotated_transformer as at
from transformer_workshop import names_of_2022
from transformer_workshop.base.shipped_models import CAPTIONS_MODEL

ROOT = Path(at.__file__).parent
# Each package that only some functions need, and a call that needs it: of the textbook,
# then of the workshop.
TEXTBOOK = {
    "spacy": "at.WordTokenizer('de')",
    "torchtext": "at.Vocabulary.build(['a'])",
    "regex": "at.pieces('a')",
    "tokenizers": "at.BytePairEncoding.train(['a b'], 300)",
    "sacrebleu": "at.score(['a'], ['b'])",
    "pandas": "at.mtx2df(torch.ones(1, 1), 1, 1, ['a'], ['b'])",
    "altair": "at.attn_map(torch.ones(1, 1, 1, 1), 0, 0, ['a'], ['b'])",
}
NEEDED = {
    "pooch": "data_sets._fetch_multi30k('val.de.gz')",
    "safetensors": "files.save_tensors('x', {})",
    "filelock": "run_folder.claim_folder(run_folder.Path('x')).__enter__()",
    "altair": "pictures.use_charts()",
    "sacrebleu": "evaluation.evaluate(Echo(), [('a', 'b')])",
    "datasets": "tables.datasets_library()",
    "ctranslate2": "export.load_exported('x')",
}
# Blocked once torch is imported, since torch itself brings some of them along.
OTHERS = "GPUtil tqdm vl_convert IPython jupytext matplotlib".split()
BLOCKED = {*TEXTBOOK, *NEEDED, *OTHERS}
BLOCK = """
import sys, torch
class Blind:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *more):
        if name.partition(".")[0] not in BLOCKED:
            return self.finder.find_spec(name, *more)
for name in list(sys.modules):
    if name.partition(".")[0] in BLOCKED:
        del sys.modules[name]
sys.meta_path[:] = map(Blind, sys.meta_path)
import annotated_transformer as at
"""


def python(code, folder):
    """Run a program in a fresh interpreter, in an empty folder."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=1200,
    )


def with_torch_alone(code, folder, copied=False):
    """Run a program where only torch is installed, and the project.

    copied: of the project there is only a copy of the textbook, in ``folder``.
    """
    blocked = BLOCKED | ({"transformer_workshop"} if copied else set())
    start = f"BLOCKED = {blocked!r}\n{BLOCK}"
    if copied:
        start = f"import sys; sys.path.insert(0, {str(folder)!r})\n{start}"
        start += f"assert at.__file__.startswith({str(folder)!r})\n"
    return python(start + textwrap.dedent(code), folder)


def complaints(calls, folder, copied=False):
    """Return what calls raise, and print, if no package but torch is installed."""
    imported = """
        from transformer_workshop import pictures
        from transformer_workshop.base import data_sets, files
        from transformer_workshop.cli import terminal
        from transformer_workshop.models import evaluation, export, translator
        from transformer_workshop.text import tables
        from transformer_workshop.training import run_folder
    """
    imported = "" if copied else textwrap.dedent(imported)
    code = textwrap.dedent(f"""
        class Echo:
            def encode_line(self, line):
                return [[line]]
            def translate_ids(self, lines, *args):
                return [translator.Translation(*line[0], 1.0) for line in lines]
        for call in {calls!r}:
            try:
                eval(call)
                print("no error")
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}".replace(chr(10), " "))
    """)
    done = with_torch_alone(imported + code, folder, copied)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_importing_is_silent_and_offline_and_loads_torch_alone(tmp_path):
    code = """
        import sys, torch, socket, subprocess, threading
        def refuse(*args, **kwargs):
            raise AssertionError("not while importing")
        socket.socket.connect = socket.getaddrinfo = refuse
        subprocess.Popen.__init__ = threading.Thread.start = refuse
        torch.optim.Adam.__init__ = torch.Tensor.backward = refuse
        state, before = torch.get_rng_state(), set(sys.modules)
        import annotated_transformer
        assert torch.equal(state, torch.get_rng_state())
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        assert new - sys.stdlib_module_names == {"annotated_transformer"}, new
    """
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a folder that holds the textbook and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    shutil.copy(at.__file__, folder)
    return folder


def test_the_textbook_alone_trains_and_decodes(alone):
    code = """
        from annotated_transformer import *
        torch.manual_seed(0)
        model = make_model(11, 11, N=1, d_model=16, d_ff=16, h=2)
        loss = SimpleLossCompute(model.generator, LabelSmoothing(11, PAD))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        ids = torch.randint(3, 11, (20, 10))
        losses = [
            train_epoch([Batch(ids, ids)] * 3, model, loss, optimizer, constant)
            for _ in range(3)
        ]
        assert losses[-1] < losses[0], losses
        src = torch.tensor([[1, 2, 3]])
        assert greedy_decode(model, src, torch.ones(1, 1, 3), 4, 1).shape == (1, 4)

        assert "make_model" in at.__all__ and "run_model_example" not in at.__all__
        missing = [name for name in at.__all__ if not hasattr(at, name)]
        assert not missing, missing
        at.make_modell
    """
    done = with_torch_alone(code, alone, copied=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.endswith(DID_YOU_MEAN)


DID_YOU_MEAN = (
    "AttributeError: module 'annotated_transformer' has no attribute 'make_modell'. "
    "Did you mean: 'make_model'?\n"
)


def test_a_typo_is_answered_with_the_name_that_was_meant(tmp_path):
    done = python("import annotated_transformer as at\nat.make_modell", tmp_path)
    assert done.stderr.endswith(DID_YOU_MEAN)


def test_an_old_cell_finds_the_names_of_the_2022_post(tmp_path):
    code = """
        from annotated_transformer import *
        from transformer_workshop import names_of_2022
        assert run_model_example is names_of_2022.run_model_example
        assert make_model and "load_translator" not in globals()
    """
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert set(names_of_2022.__all__) < set(at.__all__)
    for name in names_of_2022.__all__:
        assert getattr(at, name) is getattr(names_of_2022, name)


def test_exactly_the_functions_that_need_a_package_ask_for_it(alone, tmp_path):
    """Expect a command to do so in one line."""
    model = str(ROOT / CAPTIONS_MODEL)
    command = f"terminal.main(['translate', '--model', {model!r}, 'Ein Hund.'])"
    said, _ = complaints(list(TEXTBOOK.values()), alone, copied=True)
    more, printed = complaints([*NEEDED.values(), command], tmp_path)
    assert more.pop() == "no error"
    assert printed.count("\n") == 1 and "pip install spacy" in printed
    for package, line in zip([*TEXTBOOK, *NEEDED], said + more, strict=True):
        assert line.startswith("ImportError: "), (package, line)
        assert f"pip install {package}" in line


def test_a_wrong_flag_needs_not_even_torch(tmp_path):
    code = """
        import sys
        from transformer_workshop.cli.terminal import main
        assert [main(["fly"]), main(["train", "--epohcs=3"])] == [2, 2]
        assert not {"torch", "annotated_transformer"} & sys.modules.keys()
    """
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
