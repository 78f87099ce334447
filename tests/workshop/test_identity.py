"""Identity: a change of code or values is another one, an edit of form is not."""

import ast
import ctypes
import functools
import importlib
import math
import os
import random
import subprocess
import sys
import threading
import types
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import safetensors
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import annotated_transformer
from transformer_workshop.lab import identity
from transformer_workshop.lab.identity import Uncertain, identity_of

# A variant with something of each kind, as somebody writes it into a file.
VARIANT = '''
import dataclasses
import enum
import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import helpers
from helpers import halve

DECAY = {"at": 8, "to": [0.5, 0.25]}
STEPS = {"a", "b", 12}
TABLE = torch.tensor([1.0, 2.0])
GRID = np.array([1, 2])
POWER = 2


class Kind(enum.Enum):
    SLOW = 1
    FAST = 2


def doubled(function):
    @functools.wraps(function)
    def inner(*given):
        return 2 * function(*given)

    return inner


def plain(function):
    return function


class Base:
    bias = 0.5

    def shift(self, x):
        return x + self.bias


class Other(Base):
    pass


class Cut(Base):
    """A rate that is cut."""

    share = 0.1
    kind = Kind.SLOW

    def __init__(self, at, to=0.5):
        self.at, self.to = at, to

    @staticmethod
    def scale(x):
        return 3 * x

    @classmethod
    def named(cls, x):
        return cls.share * x

    @property
    def level(self):
        return self.to + 1

    def __call__(self, step, peak, total):
        if step < self.at and step not in {1, 2}:
            return peak
        return peak * self.to


@dataclasses.dataclass(frozen=True)
class Task:
    words: str = "captions"
    share: float = 1.0

    def train(self, model, rate):
        return self.share * rate


@doubled
def decorated(x):
    return x - 1


@torch.no_grad()
def without_gradients(x):
    return x * 5


def made(limit):
    def low(x):
        return min(x, limit)

    return low


limited = made(4)
cut = Cut(8)


def schedule(step, peak, total=100, *, last=0.0):
    """The rate of an update."""
    # a comment
    def late(x):
        return [math.cos(part / total) for part in range(x) if part > 1]

    try:
        value = DECAY["to"][0] * max(peak, last) + sum(late(step))
    except ZeroDivisionError:
        value = 1
    if step in STEPS and len(GRID):
        value += TABLE.sum().item() ** POWER
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    value = halve(first(value)) + limited(value) + decorated(value)
    value += without_gradients(value)
    return cut(step, value, total) + helpers.third(step)


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        import string

        return F.gelu(self.inner(x)) + len(string.digits)


def build():
    return Net()


variant = (build, {"schedule": schedule, "late": lambda x: x > Task().share})
task = Task()
everything = [variant, task, Task, Kind]
'''
HELPERS = """
RATIO = 2


def halve(x):
    return x / RATIO


def third(x):
    return x / 3


def unused(x):
    return x
"""
CHANGES = [
    ("math.cos", "math.sin"), ("max(peak", "min(peak"), ('"to": [0.5', '"to": [0.4'),
    ('{"a", "b", 12}', '{"a", "c", 12}'), ("[1.0, 2.0]", "[1.0, 2.5]"),
    ("[1.0, 2.0]", "[1, 2]"), ("np.array([1, 2])", "np.array([1, 3])"),
    ("np.array([1, 2])", "np.array([1, 2], np.int32)"), ("POWER = 2", "POWER = 2.0"),
    ("POWER = 2", "POWER = True"), ("SLOW = 1", "SLOW = 3"), ("Kind.SLOW", "Kind.FAST"),
    ("2 * function", "4 * function"), ("@doubled", "@plain"),
    ("bias = 0.5", "bias = 1"), ("Cut(Base)", "Cut(Other)"),
    ("share = 0.1", "share = 0.2"), ("3 * x", "3 + x"),
    ("cls.share * x", "cls.share / x"), ("self.to + 1", "self.to + 2"),
    ("@property", "@functools.cached_property"), ("@staticmethod", "@classmethod"),
    ("to=0.5", "to=0.25"), ("Cut(8)", "Cut(9)"), ("Cut(8)", "Cut(8.0)"),
    ("{1, 2}", "{1, 3}"), ("share: float = 1.0", "share: float = 0.5"),
    ("task = Task()", "task = Task(share=0.5)"), ("made(4)", "made(5)"),
    ("min(x, limit)", "max(x, limit)"), ("total=100", "total=200"),
    ("last=0.0", "last=-0.0"), ("part > 1", "part >= 1"), ("x + 2", "x + 3"),
    ("ZeroDivisionError", "ValueError"), ("value = 1\n", "value = 2\n"),
    ("F.gelu", "F.silu"), ("width=4", "width=5"), ("nn.Linear", "nn.Bilinear"),
    ("string.digits", "string.octdigits"), ("x > Task()", "x >= Task()"),
    ('words: str = "captions"', 'words: str = "multi30k"'), ("x - 1", "x - 2"),
    ("x * 5", "x * 6"), ("@torch.no_grad()", "@plain"),
    ("def build():", "PAD = 1\n\n\ndef min(*x):\n    return 1\n\n\ndef build():"),
    ("frozen=True", "frozen=True, eq=False"), ("step < self.at", "self.at < step"),
    ("return peak\n", "return total\n"), ("DECAY = {", "DECAY = {0: 0, "),
    ("helpers.third", "helpers.halve"), ("super().__init__()", "super().train()"),
]  # fmt: skip
NEUTRAL = [
    ("# a comment", "# another\n    # comment\n"), ('"""The rate of an update."""', ""),
    ("class Base:", 'class Base:\n    """What others share."""\n\n    # here\n'),
    ('"""A rate that is cut."""', '"""A rate,\n    that is cut."""\n\n\n'),
    ("\n\n\n", "\n\n\n\n\n"), ("return 3 * x", "return (\n            3\n * x)  # x"),
    ("self.at and step not in {1, 2}:",
     "self.at and (\n            step  # at\n            not in {1, 2}):"),
    ("def build():", "UNUSED = 3\n\n\ndef build():"),
    ("import math", "import math, string"), ("DECAY = {", "DECAY = {  # the end\n"),
    ("return function\n", "pass\n    return function\n"),
    ("def shift(self, x):", "def shift(self, x):\n        'Move it.'"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def surroundings(request):
    """Leave out what all computations depend on, where it isn't tested: it is slow."""
    with pytest.MonkeyPatch.context() as patch:
        if "patched" not in request.node.name:
            patch.setattr(identity, "_surroundings", list)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def digest(folder):
    """Return a function: source -> the identity of what it defines."""
    sys.path.insert(0, str(folder))
    write = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # for files that change within a second

    def load(source=VARIANT, helpers=HELPERS):
        for name, text in {"own_variant": source, "helpers": helpers}.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return identity_of(importlib.import_module("own_variant").everything)

    yield load
    sys.path.remove(str(folder))
    sys.dont_write_bytecode = write
    for name in ("own_variant", "helpers"):
        sys.modules.pop(name, None)


def edited(source, edits):
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new, 1)
    ast.parse(source)
    return source


@pytest.mark.parametrize("change", CHANGES, ids=" -> ".join)
def test_each_change_is_seen(digest, change):
    assert digest(edited(VARIANT, [change])) != digest()


@pytest.mark.parametrize("change", NEUTRAL, ids=" -> ".join)
def test_a_change_of_form_is_not(digest, change):
    assert digest(edited(VARIANT, [change])) == digest()


def test_a_reformatted_file_is_the_same(digest):
    assert digest(ast.unparse(ast.parse(VARIANT))) == digest()


def test_what_is_named_in_an_imported_file_counts(digest):
    for old in ("RATIO = 2", "x / RATIO", "x / 3"):
        assert digest(helpers=HELPERS.replace(old, old + " + 1")) != digest()
    assert digest(helpers=HELPERS.replace("return x\n", "return 2 * x\n")) == digest()
    assert digest(helpers="# nothing new\n" + HELPERS) == digest()


@given(st.sets(st.sampled_from(NEUTRAL)), st.sampled_from(CHANGES))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_change_is_seen_among_changes_of_form(digest, neutral, change):
    base = digest()
    changed = edited(VARIANT, [change])
    kept = [pair for pair in neutral if pair[0] in changed]
    assert digest(edited(VARIANT, neutral)) == base
    assert digest(edited(changed, kept)) != base


# The situations in which old results were given for changed code


def test_a_schedule_that_calls_another_function_is_another():
    variants = [
        lambda step, peak, total: peak * abs(math.cos(step / total)),
        lambda step, peak, total: peak * abs(math.sin(step / total)),
        lambda step, peak, total: peak * min(step / total, 0.01),
        lambda step, peak, total: peak * max(step / total, 0.01),
    ]
    assert len({identity_of(variant) for variant in variants}) == 4


SETTINGS = {"at": 8, "to": 0.5}
STEPS = [8, 12]
CHOSEN = {"gelu", "silu"}
MASK = torch.ones(3)


def by_settings(step):
    return step < SETTINGS["at"], STEPS, CHOSEN, MASK


@pytest.mark.parametrize("name, value", [
    ("SETTINGS", {"at": 8, "to": 0.01}), ("SETTINGS", {"to": 0.5, "at": 8}),
    ("STEPS", [5, 6, 7]), ("STEPS", (8, 12)), ("STEPS", [8, 12.0]),
    ("CHOSEN", {"gelu"}), ("CHOSEN", frozenset({"gelu", "silu"})),
    ("MASK", torch.zeros(3)), ("MASK", torch.ones(3, dtype=torch.float64)),
    ("MASK", torch.ones(1, 3)), ("MASK", torch.ones(3, requires_grad=True)),
    ("MASK", nn.Parameter(torch.ones(3), requires_grad=False)),
    ("MASK", torch.ones(6)[::2]), ("MASK", np.ones(3, np.float32)),
])  # fmt: skip
def test_a_global_that_is_edited_counts(monkeypatch, name, value):
    before = identity_of(by_settings)
    monkeypatch.setitem(globals(), name, value)
    assert identity_of(by_settings) != before
    monkeypatch.undo()
    assert identity_of(by_settings) == before
    monkeypatch.setattr(sys.modules[__name__], name, value)
    assert identity_of(by_settings) != before


def test_a_global_that_is_edited_in_place_counts():
    before = identity_of(by_settings)
    SETTINGS["to"] = 0.4
    MASK[0] = 2
    after = identity_of(by_settings)
    SETTINGS["to"] = 0.5
    assert identity_of(by_settings) not in (before, after)
    MASK[0] = 1
    assert identity_of(by_settings) == before


class Cut:
    def __init__(self, at, to):
        self.at, self.to = at, to

    def __call__(self, step, peak, total):
        return peak if step < self.at else peak * self.to

    def rate(self, step, peak, total):
        return self(step, peak, total)


def test_a_callable_object_counts_with_its_settings():
    one, two, again = Cut(8, 0.5), Cut(8, 0.01), Cut(8, 0.5)
    for form in (
        lambda cut: cut,
        lambda cut: cut.rate,
        lambda cut: lambda *given: cut(*given),
        lambda cut: functools.partial(cut, total=3),
        lambda cut: {"schedule": (cut, [cut.rate])},
    ):
        assert identity_of(form(one)) != identity_of(form(two))
        assert identity_of(form(one)) == identity_of(form(again))


# Values


def linked(value):
    cycle = [value]
    cycle.append({"self": cycle})
    return cycle


def tied(tie):
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    for layer in (first, second):
        nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
    if tie:
        second.weight = first.weight
    return nn.Sequential(first, second)


DIFFERENT = [
    0, 1, 1.0, True, 1 + 0j, 0.0, -0.0, math.nan, math.inf, "1", b"1", None, ..., (),
    [], {}, set(), frozenset(), {1}, {1.0}, {True}, [1, [2]], [[1], 2], [[1, 2]],
    ["12", ""], ["1", "2"], {1: 2}, {2: 1}, {1: 2, 3: 4}, {3: 4, 1: 2}, range(3),
    range(0, 3, 2),
    slice(3), slice(0, 3), Path("a"), Path("b"), int, float, len, max, min, "a".upper,
    "b".upper, str.upper, str.lower, math.sin, np.sin, np.cos, torch.sin, torch.cos,
    F.gelu, F.silu, nn.GELU(), nn.SiLU(), nn.GELU(approximate="tanh"), nn.GELU, nn.SiLU,
    torch.float32, torch.float64, torch.device("cpu"), torch.device("meta"), np.float32,
    np.dtype("float32"), np.float32(1), np.float64(1), np.arange(4), np.arange(4.0),
    np.arange(4).reshape(2, 2), np.array(["a"]), np.array([[1], 2], dtype=object),
    torch.arange(4), torch.arange(4).view(2, 2), torch.arange(4).view(2, 2).t(),
    torch.tensor(1), torch.tensor(1, dtype=torch.bfloat16), torch.tensor(math.nan),
    torch.tensor([0.0]), torch.tensor([-0.0]), torch.tensor([1j]), torch.empty(0),
    random.Random(1), random.Random(2), torch.Generator().manual_seed(1),
    torch.Generator().manual_seed(2), np.random.default_rng(1), linked(1), linked(2),
    tied(True), tied(False), tied(False).eval(), types.SimpleNamespace(a=1),
    types.SimpleNamespace(b=1),
    functools.partial(int, base=2), functools.partial(int, base=3), ValueError("a"),
    ValueError("b"), by_settings, Cut, Cut(1, 2), Cut(2, 1), Cut(1, 2).rate,
    iter([1, 2]),
]  # fmt: skip


def test_different_values_are_told_apart():
    digests = [identity_of(value) for value in DIFFERENT]
    same = [i for i, digest in enumerate(digests) if digests.count(digest) > 1]
    assert [DIFFERENT[i] for i in same] == []
    assert [identity_of(value) for value in DIFFERENT] == digests


def test_what_is_sent_to_a_worker_is_the_same_there():
    zeros, numbers = torch.zeros(4), np.arange(6)
    views = [[zeros, zeros[:2]], [numbers, numbers[::2]]]  # which are copies there
    for value in [*DIFFERENT, *views]:
        sent = cloudpickle.loads(cloudpickle.dumps(value))
        assert identity_of(sent) == identity_of(value), value


def test_one_object_or_two_equal_ones_is_a_difference():
    assert identity_of([[]] * 2) != identity_of([[], []])
    assert identity_of([(1, 2)] * 2) == identity_of([(1, 2), tuple([1, 2])])
    assert identity_of([1], [2]) != identity_of([1, 2]) != identity_of(1, 2)


def test_a_hook_and_an_attribute_of_a_module_count():
    plain, hooked, marked = tied(False), tied(False), tied(False)
    hooked.register_forward_hook(lambda *_: None)
    marked.extra = 1
    assert len({identity_of(model) for model in (plain, hooked, marked)}) == 3


def test_lambdas_on_one_line_are_told_apart():
    one, two, again = (lambda x: x + 1), (lambda x: x + 2), (lambda x: x + 1)
    assert identity_of(one) == identity_of(again) != identity_of(two)


def test_a_function_made_by_exec_is_known_by_its_code():
    def made(code):
        space = {"__name__": "torch.nn.functional"}  # which it isn't
        exec(code, space)
        return space["gelu"]

    first, *others = map(made, (
        "def gelu(x): return x",
        "def gelu(x): return -x",
        "K = 1\ndef gelu(x): return K * x",
        "K = 2\ndef gelu(x): return K * x",
    ))  # fmt: skip
    assert len({identity_of(function) for function in (first, *others)}) == 4
    assert identity_of(first) == identity_of(made("'''Doc'''\n\ndef gelu(x): return x"))


# What others have replaced in memory


def activated(x):
    return nn.GELU()(x)


def with_gelu(x):
    return F.gelu(x)


def doubled(x, approximate="none"):
    return 2 * x


@pytest.mark.parametrize("value", [doubled, F.silu, functools.partial(F.gelu)])
def test_a_module_that_was_patched_is_seen(monkeypatch, value):
    before = identity_of(activated), identity_of(with_gelu)
    monkeypatch.setattr(F, "gelu", value)
    assert identity_of(with_gelu) != before[1]
    if not isinstance(value, functools.partial):
        assert identity_of(activated) != before[0]
    monkeypatch.undo()
    assert (identity_of(activated), identity_of(with_gelu)) == before


def test_a_method_and_a_builtin_that_were_patched_are_seen(monkeypatch):
    before = identity_of(activated), identity_of(by_settings), identity_of(linked)
    for other in (lambda self, x: x, nn.SiLU.forward):  # one's own, or a package's
        monkeypatch.setattr(nn.GELU, "forward", other)
        assert identity_of(activated) != before[0]
        monkeypatch.undo()
    monkeypatch.setattr(annotated_transformer, "LayerNorm", nn.LayerNorm)
    assert identity_of(activated) != before[0]
    monkeypatch.undo()
    torch.set_default_dtype(torch.float64)
    try:
        assert identity_of(linked) != before[2]
    finally:
        torch.set_default_dtype(torch.float32)
    assert identity_of(linked) == before[2]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs a package, as far as its metadata goes."""

    def install(version, files):
        folder = tmp_path / "somebodys.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(f"Name: somebodys\nVersion: {version}\n")
        (folder / "RECORD").write_text(files)
        identity._versions.cache_clear()
        return identity_of(with_gelu)

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    identity._versions.cache_clear()


def test_every_package_counts_patched(installed):
    """One that nobody names may change others, or be used if it is there."""
    digests = [
        installed("1.0", "a.py,sha256=1,9"), installed("1.1", "a.py,sha256=1,9"),
        installed("1.1", "a.py,sha256=2,9"),
    ]  # fmt: skip
    assert len(set(digests)) == 3
    assert installed("1.1", "a.py,sha256=2,9") == digests[-1]


def test_a_module_that_shares_the_name_of_a_package_is_read(tmp_path, monkeypatch):
    """Part of a namespace may be installed, and another part be somebody's own."""
    own = types.ModuleType("numpy.somebodys")
    own.__file__ = str(tmp_path / "somebodys.py")
    monkeypatch.setitem(sys.modules, own.__name__, own)
    assert identity._is_own_module(own.__name__)
    assert not identity._is_own_module("numpy")


def test_packages_within_packages_are_no_patches():
    """setuptools brings copies of others, which lie in a folder of its own."""
    pytest.importorskip("setuptools")
    patches = [each for each in identity._patches() if isinstance(each, str)]
    assert patches == []
    identity_of(activated)


# What can't be told for certain


def holds(value):
    return lambda: value


def time_of(x):
    import time

    return time.time() + x


def loaded():
    import numpy

    return numpy.load("a.npy")


def parsed():
    from xml.etree import ElementTree

    return ElementTree.parse("a.xml")


def connected():
    import sqlite3

    return sqlite3.connect("a.db")


torch_too = types.SimpleNamespace(torch=torch)

UNCERTAIN = {
    "numpy's file": lambda: loaded,
    "tree": lambda: parsed,
    "database": lambda: connected,
    "load of what is captured": lambda: lambda: torch_too.torch.load("a.pt"),
    "name of a file": lambda: holds(__file__),
    "path of a file": lambda: holds(Path(__file__)),
    "file": lambda: holds(open(__file__, encoding="utf-8")),
    "generator": lambda: holds(x for x in [1]),
    "lock": lambda: holds(threading.Lock()),
    "thread": lambda: holds(threading.Thread()),
    "module": lambda: holds(sys.modules["__main__"]),
    "eval": lambda: lambda x: eval(x),
    "exec": lambda: lambda x: exec(x),
    "globals": lambda: lambda: globals()["SETTINGS"],
    "import": lambda: lambda name: importlib.import_module(name),
    "__import__": lambda: lambda name: __import__(name),
    "open": lambda: lambda: open("a"),
    "read_text": lambda: lambda: Path("a").read_text(),
    "load": lambda: lambda: torch.load("a"),
    "clock": lambda: time_of,
    "library": lambda: lambda: ctypes.CDLL("a.so"),
    "compiled": lambda: holds(safetensors.safe_open),  # its module is "builtins"
    "shared": lambda: lambda: random.random() + random.gauss(0, 1),
    "numpy's": lambda: lambda: np.random.rand(),
    "graph": lambda: holds(torch.ones(1, requires_grad=True) * 2),
    "sparse": lambda: holds(torch.eye(2).to_sparse()),
    "docstring": lambda: lambda: holds.__doc__,
    "ufunc": lambda: holds(np.frompyfunc(lambda x: x, 1, 1)),
    "op": lambda: lambda x: torch.ops.somebodys.op(x),
    "deep": lambda: functools.reduce(lambda inner, _: [inner], range(5000), []),
}


def read_twice(x):
    return 2 * x


def test_a_function_of_ones_own_may_be_called_read():
    assert identity_of(lambda x: read_twice(x))


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_what_cannot_be_read_is_said(kind):
    with pytest.raises(Uncertain):
        identity_of(UNCERTAIN[kind]())


def test_the_sentence_names_what_and_where():
    def cosine(step, numbers=(x for x in [1])):
        return numbers

    stream = (x for x in [1])
    with pytest.raises(Uncertain) as error:
        identity_of(cosine)
    assert str(error.value) == (
        "a default of cosine is or holds a generator, whose state can't be read"
    )
    with pytest.raises(Uncertain) as error:
        identity_of({"schedule": lambda: stream})
    assert str(error.value) == (
        "stream, which a lambda captures, is or holds a generator, whose state can't be"
        " read"
    )


def test_a_pickle_of_ones_own_may_hide_something():
    class Hidden:
        def __getstate__(self):
            return {}

    with pytest.raises(Uncertain, match="__getstate__"):
        identity_of(Hidden())


# Restarts, and workers that get their functions from a notebook

NOTEBOOK = """
import pickle, sys
import annotated_transformer
import cloudpickle
from transformer_workshop.lab.identity import identity_of
{moved}
{source}
print(identity_of(everything))
if {sends}:
    with open("sent", "wb") as file:
        cloudpickle.dump(everything, file)
else:
    with open("sent", "rb") as file:
        print(identity_of(pickle.load(file)))
"""


@pytest.mark.slow
def test_it_is_the_same_after_a_restart_and_in_a_worker(tmp_path):
    (tmp_path / "helpers.py").write_text(HELPERS)
    found = []
    for seed, moved in ("1", ""), ("2", "\n\n# moved\n\n"):
        script = tmp_path / f"cells_{seed}.py"
        sends = seed == "1"
        script.write_text(NOTEBOOK.format(source=VARIANT, moved=moved, sends=sends))
        done = subprocess.run(
            [sys.executable, str(script)],
            env=os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        found += done.stdout.split()
    assert len(found) == 3 and len(set(found)) == 1
