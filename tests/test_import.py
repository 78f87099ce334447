"""Importing: silent, offline, cheap; the textbook alone, with torch alone; arrows."""

import ast
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import annotated_transformer as at

ROOT = Path(at.__file__).parent
WORKSHOP = sorted((ROOT / "transformer_workshop").glob("*.py"))
# Each package that only some functions need, and a call that needs it: of the textbook,
# then of the workshop.
TEXTBOOK = {
    "spacy": "at.load_tokenizers()",
    "torchtext": "at.build_vocabulary(None, None, pairs=[('a', 'b')])",
    "tokenizers": "at.BytePairEncoding.train(['a b'], 300)",
    "pooch": "at._fetch_multi30k('val.de.gz')",
    "sacrebleu": "at.score(['a'], ['b'])",
    "pandas": "at.mtx2df(torch.ones(1, 1), 1, 1, ['a'], ['b'])",
    "altair": "at.attn_map(torch.ones(1, 1, 1, 1), 0, 0, ['a'], ['b'])",
}
NEEDED = {
    "safetensors": "at.save_tensors('x', {})",
    "filelock": "at.claim_folder(at.Path('x')).__enter__()",
    "altair": "at.use_charts()",
    "sacrebleu": "at.evaluate(Echo(), [('a', 'b')])",
    "datasets": "__import__('transformer_workshop.corpora').corpora._datasets()",
    "ctranslate2": "at.load_exported('x')",
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
    code = f"""
        class Echo:
            def translate(self, sentences, *args, **kwargs):
                return list(sentences)
        for call in {calls!r}:
            try:
                eval(call)
                print("no error")
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}".replace(chr(10), " "))
    """
    done = with_torch_alone(code, folder, copied)
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
    """Expect a name of the workshop to be refused with the reason, too."""
    code = """
        from annotated_transformer import *
        torch.manual_seed(0)
        model = make_model(11, 11, N=1, d_model=16, d_ff=16, h=2)
        loss = SimpleLossCompute(model.generator, LabelSmoothing(11, PAD))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        losses = [
            float(run_epoch(data_gen(11, 20, 3), model, loss, optimizer, constant)[0])
            for _ in range(3)
        ]
        assert losses[-1] < losses[0], losses
        src = torch.tensor([[1, 2, 3]])
        assert greedy_decode(model, src, torch.ones(1, 1, 3), 4, 1).shape == (1, 4)

        assert "make_model" in dir(at) and "make_model" in at.__all__
        assert "load_translator" not in dir(at) and "load_translator" not in at.__all__
        missing = [name for name in at.__all__ if not hasattr(at, name)]
        assert not missing, missing
        at.load_translator
    """
    done = with_torch_alone(code, alone, copied=True)
    assert done.returncode == 1 and done.stdout == ""
    *_, last = done.stderr.splitlines()
    assert last.startswith("AttributeError: annotated_transformer has no attribute")
    assert last.endswith("the package transformer_workshop isn't installed")


def test_a_name_that_nobody_defines_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'$"):
        at.no_such_name  # noqa: B018


def test_exactly_the_functions_that_need_a_package_ask_for_it(alone, tmp_path):
    """Expect a command to do so in one line."""
    model = str(ROOT / at.CAPTIONS_MODEL)
    command = f"at.main(['translate', '--model', {model!r}, 'Ein Hund.'])"
    said, _ = complaints(list(TEXTBOOK.values()), alone, copied=True)
    more, printed = complaints([*NEEDED.values(), command], tmp_path)
    assert more.pop() == "no error"
    assert printed.count("\n") == 1 and "pip install spacy" in printed
    for package, line in zip([*TEXTBOOK, *NEEDED], said + more, strict=True):
        assert line.startswith("ImportError: "), (package, line)
        assert f"pip install {package}" in line


def test_help_and_a_wrong_flag_need_not_even_torch(tmp_path):
    code = """
        import sys
        from contextlib import suppress
        from transformer_workshop.terminal import main
        names = "train prepare translate evaluate calibrate attend export".split()
        for command in ([], *([name] for name in names)):
            with suppress(SystemExit):
                main([*command, "--help"])
        assert [main(["fly"]), main(["train", "--epohcs=3"])] == [2, 2]
        assert not {"torch", "annotated_transformer"} & sys.modules.keys()
    """
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: annotated-transformer") == 8
    assert done.stderr.count("\n") == 2 and "did you mean --epochs?" in done.stderr


# arrows


def imports(tree):
    """Yield (module, name) for what a syntax tree imports, except for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)
        elif not (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            yield from imports(node)


def files_used(path):
    """Return the workshop's files that one of them imports, also inside functions."""
    package, stems = "transformer_workshop", {path.stem for path in WORKSHOP}
    used = set()
    for module, name in imports(ast.parse(path.read_text("utf-8"))):
        if module == package:
            used.add(name if name in stems else "__init__")
        elif module.startswith(package + "."):
            used.add(module.removeprefix(package + "."))
    return used


def test_the_arrows_between_the_workshops_files_form_no_circle():
    arrows = {path.stem: files_used(path) for path in WORKSHOP}
    assert arrows["terminal"] and arrows["__init__"] == set()
    leaves = []
    while arrows:
        free = [name for name, used in arrows.items() if used <= set(leaves)]
        assert free, f"a circle among {arrows}"
        leaves += free
        for name in free:
            del arrows[name]
    assert leaves.index("files") < leaves.index("runs") < leaves.index("commands")


@pytest.mark.parametrize("path", WORKSHOP, ids=lambda path: path.stem)
def test_no_private_name_is_imported_from_another_file(path):
    found = list(imports(ast.parse(path.read_text("utf-8"))))
    assert not [name for _, name in found if name.startswith("_") and name[1] != "_"]
