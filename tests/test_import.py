"""Importing the module: silent, offline, cheap, and possible with torch alone."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import annotated_transformer as at

ROOT = Path(at.__file__).parent
# Each package that only some functions need, and a call that needs it.
NEEDED = {
    "spacy": "at.load_tokenizers()",
    "torchtext": "at.build_vocabulary(None, None, pairs=[('a', 'b')])",
    "tokenizers": "at.BytePairEncoding.train(['a b'], 300)",
    "safetensors": "at.save_tensors('x', {})",
    "pooch": "at._fetch_multi30k('val.de.gz')",
    "altair": "at.use_charts()",
    "sacrebleu": "at.evaluate(Echo(), [('a', 'b')])",
    "datasets": "at._datasets()",
    "ctranslate2": "at.load_exported('x')",
    "pandas": "at.mtx2df(torch.ones(1, 1), 1, 1, ['a'], ['b'])",
}
# Blocked once torch is imported, since torch itself brings some of them along.
BLOCKED = [*NEEDED, "GPUtil", "tqdm", "vl_convert", "IPython", "jupytext", "matplotlib"]
BLOCK = f"""
import sys, torch
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
for name in list(sys.modules):
    if name.partition(".")[0] in {BLOCKED!r}:
        del sys.modules[name]
sys.meta_path.insert(0, Blocked())
import annotated_transformer as at
"""


def python(code, folder):
    """Run a program in a fresh interpreter, in an empty folder."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=1200,
    )


def test_importing_prints_nothing_writes_nothing_and_touches_no_network(tmp_path):
    code = """
        import torch, socket, subprocess, threading
        def refuse(*args, **kwargs):
            raise AssertionError("not while importing")
        socket.socket.connect = socket.getaddrinfo = refuse
        subprocess.Popen.__init__ = threading.Thread.start = refuse
        torch.optim.Adam.__init__ = torch.Tensor.backward = refuse
        state = torch.get_rng_state()
        import annotated_transformer
        assert torch.equal(state, torch.get_rng_state())
    """
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_importing_loads_no_package_besides_torch(tmp_path):
    code = """
        import sys, torch
        before = set(sys.modules)
        import annotated_transformer
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(*sorted(new - sys.stdlib_module_names))
    """
    done = python(code, tmp_path)
    assert done.stdout.split() == ["annotated_transformer"], done


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return what each call of NEEDED says if no package but torch is installed."""
    code = f"""
        class Echo:
            def translate(self, sentences, *args, **kwargs):
                return list(sentences)
        model = at.make_model(11, 11, N=1, d_model=8, d_ff=8, h=2)
        src = torch.tensor([[1, 2, 3]])
        at.greedy_decode(model, src, torch.ones(1, 1, 3), 4, 1)
        for call in {list(NEEDED.values())!r}:
            try:
                eval(call)
                print("no error")
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}".replace(chr(10), " "))
    """
    done = python(BLOCK + textwrap.dedent(code), tmp_path_factory.mktemp("alone"))
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == len(NEEDED), said
    return dict(zip(NEEDED, said, strict=True))


@pytest.mark.parametrize("package", NEEDED)
def test_exactly_the_functions_that_need_a_package_ask_for_it(alone, package):
    assert alone[package].startswith("ImportError: ")
    assert f"pip install {package}" in alone[package]


def test_help_needs_torch_alone_and_a_command_names_what_it_needs(tmp_path):
    code = """
        from contextlib import suppress
        for argv in (["--help"], ["translate", "--help"], ["train", "--help"]):
            with suppress(SystemExit):
                at.main(argv)
        model = at.project_folder() / at.CAPTIONS_MODEL
        assert at.main(["translate", "--model", str(model), "Ein Hund."]) == 2
    """
    done = python(BLOCK + textwrap.dedent(code), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: annotated-transformer") == 3
    assert done.stderr.count("\n") == 1 and "pip install spacy" in done.stderr
