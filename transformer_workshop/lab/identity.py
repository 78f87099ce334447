"""Would this code compute the same as before?

Code and values are read as they are in memory, because that is what runs: a file may
have been edited since. A function is its instructions, the values that it captures, and
the globals that it names, wherever they lead. Installed packages, which nobody edits,
count by version and by the list of their files; the textbook and the workshop count by
their files. All packages count: many use others only if they are there, name them by a
string, or change others when they are imported, so which ones matter can't be told.

What can't be read for certain raises Uncertain, and is trained again. That costs
minutes. An old result for new code would cost the truth.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import enum
import functools
import hashlib
import importlib
import importlib.metadata
import os
import random
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import annotated_transformer
import transformer_workshop
from annotated_transformer import DataError
from transformer_workshop.base.data_sets import data_file


class Uncertain(Exception):
    """What can't be told for certain, in a sentence."""


def identity_of(*things: object) -> str:
    """Return a digest of code and values; equal ones promise equal results.

    It has two parts, with a hyphen between: of what all computations depend on, and of
    what was given. It is the same after a restart, and after an edit of comments,
    docstrings, or of where a line stands. Random numbers that nobody seeded are outside
    the promise, and so is the order in which a set is iterated, which is the same in
    all workers. Raises Uncertain if
    anything can't be read.
    """
    try:
        return f"{surroundings()}-{_digest(_At('what was given', things))}"
    except Uncertain:
        raise
    except Exception as error:  # it is nested too deeply, or imports what isn't there
        raise Uncertain(f"it can't be read ({error})") from None


def surroundings() -> str:
    """Return a digest of what all computations in this process depend on."""
    return _digest(_At("the program", _surroundings()))


# --- where does code come from? ---

_WORKSHOP = Path(transformer_workshop.__file__).parent
_REPOSITORY = [
    annotated_transformer.__file__,
    *map(str, sorted(_WORKSHOP.rglob("*.py"))),
]
_PACKAGES = set(importlib.metadata.packages_distributions())  # that have a version


def _folders(*kinds: str) -> tuple[str, ...]:
    paths = {Path(sysconfig.get_path(kind)) for kind in kinds}
    return tuple(str(p) + os.sep for path in paths for p in (path, path.resolve()))


_PYTHONS = _folders("stdlib", "platstdlib")
_INSTALLED = _PYTHONS + _folders("purelib", "platlib")


@functools.cache
def _is_own_file(path: str) -> bool:
    """Return whether a file is neither installed nor one of this repository's."""
    return not path.startswith(_INSTALLED) and path not in _REPOSITORY


@functools.cache
def _is_own_module(name: str) -> bool:
    """Return whether a module, by its name, is somebody's own."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec and spec.name.endswith(f".{name}") and name != "__main__":
        name = spec.name  # some packages list a module by its last name, too
    top = name.partition(".")[0]  # a module in C may have no file, but its package has
    if top in ("__main__", "__mp_main__"):
        return True
    if top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if isinstance(file, str) and _is_own_file(file):  # shares a package's name
        return True
    module = sys.modules.get(top)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    path = next(filter(None, places), "")
    if _is_own_file(path):
        return True
    site = max((p for p in _INSTALLED if path.startswith(p)), key=len, default="")
    if site in _PYTHONS and top not in ("sitecustomize", "usercustomize"):
        return False  # some systems add modules to Python's own
    folder = path.removeprefix(site).partition(os.sep)[0]  # vendored: that of its host
    return path not in _REPOSITORY and not {top, folder} & _PACKAGES


def _is_own(thing: Any) -> bool:
    """Return whether a function or class is somebody's own, or was made by exec."""
    if isinstance(thing, types.FunctionType):
        return _is_own_file(thing.__code__.co_filename)
    return _is_own_module(thing.__module__)


def _is_own_function(thing: Any) -> bool:
    """Return whether a thing is a function of somebody's own, which can be read."""
    return isinstance(thing, types.FunctionType) and _is_own(thing)


def _installed_name(thing: Any) -> tuple[str, str] | None:
    """Return the module and name under which a package has a thing, if one has it."""
    module, name = (getattr(thing, key, None) for key in ("__module__", "__qualname__"))
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if _is_own_module(module) or _is_own(thing):  # a decorator gives names to its code
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is thing else None


# --- what every computation depends on ---


@functools.cache
def _versions() -> list[object]:
    """Return Python, all packages, this repository, and the data that comes with it."""
    packages: list[list[str]] = []
    digest = hashlib.sha256()
    for path in _REPOSITORY:
        digest.update(Path(path).read_bytes())
    for name in ("train.de", "train.en", "valid.de", "valid.en"):
        with suppress(DataError):  # installed without its data
            digest.update(data_file("captions", name).read_bytes())
    for package in importlib.metadata.distributions():
        # pip writes the hash of each file, so another build of one version differs
        digest_of_files = hashlib.sha256((package.read_text("RECORD") or "").encode())
        packages.append([package.name, package.version, digest_of_files.hexdigest()])
    return [sys.version, sorted(packages), digest.hexdigest()]


def _surroundings() -> list[object]:
    hooks = sorted(vars(torch.nn.modules.module).items())
    return [
        _versions(),
        [str(torch.get_default_dtype()), str(torch.get_default_device())],
        [torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
        [torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled],
        torch.are_deterministic_algorithms_enabled(),
        [(key, value) for key, value in hooks if re.match("_global_.*hooks", key)],
        "\n".join(home for module in _COMPARED for home in _homes(module)),
        list(_patches()),
    ]


_COMPARED = annotated_transformer, torch, torch.nn, torch.nn.functional


def _homes(module: types.ModuleType) -> Iterator[str]:
    """Yield where what a module has was defined, of a class's members if elsewhere.

    What torch.compile puts into torch.nn.Module doesn't count.
    """
    for key, value in sorted(vars(module).items()):
        is_class = issubclass(type(value), type)
        is_its_own = is_class and value.__module__.startswith(module.__name__)
        members = sorted(vars(value).items()) if is_its_own else []
        for path, found in [("", value), *members]:
            name = getattr(found, "__qualname__", None)
            if not isinstance(name, str):
                continue
            home = str(getattr(found, "__module__", None))
            is_usual = path and name == f"{value.__qualname__}.{path}"
            if not is_usual and not home.startswith("torch._dynamo"):
                yield f"{module.__name__}.{key}.{path} is {home}.{name}"


def _patches() -> Iterator[Any]:
    """Yield functions and classes that were put into modules of others, by name."""
    for name, module in sorted(sys.modules.items()):
        if not isinstance(module, types.ModuleType) or _is_own_module(name):
            continue
        for key, value in sorted(vars(module).items()):
            is_class = issubclass(type(value), type)
            is_at_home = is_class and value.__module__ in (name, None)
            members = sorted(vars(value).items()) if is_at_home else []
            for path, found in [(key, value), *members]:
                if _is_patch(found) and key != "_":  # the last result of a terminal
                    yield from (f"{name}.{key}.{path}", found)


def _is_patch(thing: Any) -> bool:
    """Return whether a function or class comes from a module of somebody's own."""
    if type(thing) is types.FunctionType:
        home = thing.__globals__.get("__name__")
    elif issubclass(type(thing), type):  # isinstance would wake what is imported lazily
        home = thing.__module__
    else:
        return False
    return home in sys.modules and _is_own_module(home)


# --- what may be another at each call ---

_CHANGING = (
    "time", "uuid", "secrets", "os", "posix", "nt", "io", "_io", "glob", "shutil",
    "socket", "subprocess", "importlib", "ctypes", "torch.ops", "builtins.eval",
    "builtins.exec", "builtins.compile", "builtins.globals", "builtins.__import__",
    "builtins.input",
)  # fmt: skip
_CHANGING_ATTRIBUTES = {
    "open", "read_text", "read_bytes", "from_pretrained", "now", "today", "utcnow",
    "f_globals", "f_locals", "_getframe", "__globals__", "__subclasses__",
    "__code__", "__doc__", "__annotations__",  # the same code may have others
}  # fmt: skip
_READS_FILES = re.compile(
    r"(load|read|open|fetch|download)($|_)|url(open|retrieve)|from_?file|memmap"
    r"|from_pretrained|loadtxt|genfromtxt|loadmat|imread|getlines?$|parse$|connect$"
    r"|ZipFile|TarFile|FileInput|File$|SentencePieceProcessor"
)
_HARMLESS = {"load_state_dict"}  # reads what it is given
_DRAW: list[Any] = [random.random, np.random.rand]
_SHARED_GENERATORS = [function.__self__ for function in _DRAW]


def _certain(module: str, name: str = "") -> str:
    """Return a word for what a package has under a name.

    Raises _Unreadable if that may give something else at each call.
    """
    word = f"{module}.{name}" if name else module
    changes = any(f"{word}.".startswith(f"{known}.") for known in _CHANGING)
    if changes or _READS_FILES.match(name.rpartition(".")[2]):
        raise _Unreadable(f"{word}, and what that gives may change")
    return word


# --- reading ---


class _Unreadable(Exception):
    """What can't be read, as "a lock, whose state can't be read"."""


class _At(NamedTuple):
    """A thing, and where it was found."""

    where: str
    thing: Any


_ATOMS = (type(None), bool, int, float, complex, str, bytes)


class _Reader:
    """Read things into a digest, in an order that depends on nothing but them."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        # What has an identity is read once and then named by its number. It is kept
        # here, so that its address isn't given to something else.
        self.numbers: dict[int, tuple[int, Any]] = {}

    def say(self, *words: str | bytes) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else word.encode("utf-8")
            self.hash.update(b"%d:" % len(data) + data)

    def read(self, thing: Any) -> None:
        """Read a thing and, one after the other, all that it consists of."""
        kind = type(thing)
        if kind is _At:
            try:
                self.read(thing.thing)
            except _Unreadable as error:
                raise Uncertain(f"{thing.where} is or holds {error}") from None
            return
        if kind in _ATOMS:
            if kind is str and _names_a_file(thing):
                raise _Unreadable(f"{thing!r}, a file, and what is in it may change")
            self.say(kind.__name__, thing if kind is bytes else repr(thing))
            return
        if kind not in (tuple, frozenset):  # equal ones may be one object or two
            if id(thing) in self.numbers:
                self.say("again", str(self.numbers[id(thing)][0]))
                return
            self.numbers[id(thing)] = len(self.numbers), thing
        self.say("(", kind.__name__)
        for part in _parts(thing):
            self.read(part)
        self.say(")")


def _names_a_file(text: str) -> bool:
    """Return whether text is a path of a file, as far as it looks like one."""
    looks_like_it = len(text) < 300 and ("." in text or os.sep in text)
    return looks_like_it and "\0" not in text and os.path.isfile(text)


def _digest(thing: Any) -> str:
    reader = _Reader()
    reader.read(thing)
    return reader.hash.hexdigest()


def _parts(thing: Any) -> Iterable[Any]:
    """Return what a thing consists of: together, its parts tell all about it."""
    if any(thing is shared for shared in _SHARED_GENERATORS):
        raise _Unreadable("the generator that all share: use one of your own")
    if isinstance(thing, enum.Enum):
        return [type(thing), object.__getstate__(thing)]
    if isinstance(thing, PurePath):
        return [type(thing), str(thing)]
    if isinstance(thing, types.ModuleType):
        if _is_own_module(thing.__name__):
            raise _Unreadable("a module, of which it isn't known what is used")
        return [_certain(thing.__name__)]
    if name := _installed_name(thing):
        return [_certain(*name)]
    if isinstance(thing, type):
        return _of_class(thing)
    if isinstance(thing, Tensor):
        return _of_tensor(thing)
    if isinstance(thing, set | frozenset):
        return [object.__getstate__(thing), *sorted(thing, key=_digest)]
    return _PARTS.get(type(thing), _of_object)(thing)


def _of_object(thing: Any) -> list[Any]:
    """Return what pickle would restore an object from."""
    kind = type(thing)
    for base in kind.__mro__:
        for key in ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs_ex__"):
            method = vars(base).get(key)
            if isinstance(method, types.FunctionType) and _is_own(method):
                raise _Unreadable(f"a {kind.__name__}, whose {key} may hide something")
    try:
        reduce = copyreg.dispatch_table.get(kind)
        state = reduce(thing) if reduce else thing.__reduce_ex__(4)
    except Exception:
        state = ""
    if not isinstance(state, str):
        # what makes it, from what, its attributes, and items of a list or dictionary
        return [list(part) if isinstance(part, Iterator) else part for part in state]
    module = getattr(thing, "__module__", None) or kind.__module__
    name = state.rpartition(".")[2]  # torch.float32 is known by its name
    if _is_own_module(module) or getattr(sys.modules[module], name, None) is not thing:
        raise _Unreadable(f"a {kind.__name__}, whose state can't be read")
    return [_certain(module, name)]


_NOT_COMPARED = {
    "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__dict__",
    "__static_attributes__", "__weakref__", "_abc_impl", "__slotnames__",
}  # fmt: skip


def _of_class(thing: type) -> Iterator[Any]:
    compiled = types.MethodDescriptorType | types.WrapperDescriptorType
    for value in vars(thing).values():
        if isinstance(value, compiled) and value.__objclass__ is thing:
            raise _Unreadable(f"{thing.__name__}, a compiled class without a module")
    yield from (thing.__name__, type(thing), thing.__bases__)
    for key, value in sorted(vars(thing).items()):
        if key not in _NOT_COMPARED:
            yield from (key, _At(f"{thing.__qualname__}.{key}", value))


def _of_tensor(thing: Tensor) -> list[Any]:
    """Return a tensor's parts. Workers get copies, so shared memory doesn't count."""
    if thing.grad_fn is not None or thing.layout != torch.strided:
        raise _Unreadable("a tensor that is sparse or part of a computation")
    hooks = thing._backward_hooks or None
    more: list[Any] = [thing.requires_grad, thing.grad, hooks, vars(thing)]
    place = [str(thing.dtype), str(thing.device), tuple(thing.shape), thing.stride()]
    if thing.device.type != "meta":
        plain = thing.detach().cpu().resolve_conj().resolve_neg().contiguous()
        more.append(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return [type(thing), *place, *more]


# --- reading code ---


@functools.cache
def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    """Return what a code object does, without the docstring in the body of a class."""
    kept: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_NAME" and instruction.argval in _NOT_COMPARED:
            kept.pop()
        else:
            kept.append(instruction)
    return kept


def _of_code(code: types.CodeType) -> Iterator[Any]:
    """Yield what is executed, without line numbers and docstrings."""
    yield from (code.co_name, code.co_varnames, code.co_freevars)
    yield from (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield code.co_flags & ~0x4000000  # CO_HAS_DOCSTRING, from Python 3.14 on
    for instruction in _instructions(code):
        is_constant = instruction.opcode in dis.hasconst
        operand = instruction.argval if is_constant else instruction.argrepr
        yield from (instruction.opname, operand)
        if not (is_constant or operand):
            yield instruction.arg
    yield code.co_exceptiontable


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    """Yield code and values: defaults, what is captured, and what is named."""
    if vars(function).get("hooked"):  # PyTorch wraps an optimizer's step at its first
        function = vars(function)["__wrapped__"]
    code = function.__code__
    name = code.co_name if code.co_name != "<lambda>" else "a lambda"
    defaults = [function.__defaults__, function.__kwdefaults__]
    yield from (code, _At(f"a default of {name}", defaults))
    for key, cell in zip(code.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):  # it has no value yet
            yield from (key, _At(f"{key}, which {name} captures,", cell.cell_contents))
    yield _At(f"an attribute of {name}", vars(function))
    for path, value in _uses(code, function.__globals__):
        yield from (path, _At(f"{path}, which {name} names,", value))


def _uses(code: types.CodeType, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what code names, as a.b.c if a and a.b are modules, and what that is."""
    reads = {
        name
        for name in code.co_names
        if _READS_FILES.match(name) and not _is_own_function(known.get(name))
    }
    for key in sorted(_CHANGING_ATTRIBUTES & set(code.co_names) | reads - _HARMLESS):
        raise _Unreadable(f"code with {key}, and what that gives may change")
    instructions = _instructions(code)
    for i, (opname, path) in enumerate((x.opname, x.argval) for x in instructions):
        if isinstance(path, types.CodeType):  # a function in this one
            yield from _uses(path, known)
        elif opname in _LOADS_A_NAME:
            value = known.get(path, vars(builtins).get(path, _NO_VALUE))
            rest = takewhile(
                lambda x: x.opname in _LOADS_ATTRIBUTES, instructions[i + 1 :]
            )
            yield _followed(path, value, *(load.argval for load in rest))
        elif opname == "IMPORT_NAME":
            level, wanted = instructions[i - 2].argval, instructions[i - 1].argval
            module = importlib.import_module(
                "." * level + path, known.get("__package__")
            )
            yield from (_followed(path, module, name) for name in wanted or ())
            if not wanted:
                yield path, module


def _followed(path: str, value: Any, *attributes: str) -> tuple[str, Any]:
    """Follow attributes from a module on, through modules, to something else."""
    for key in attributes:
        if isinstance(value, types.ModuleType) and value is not torch.ops:
            path, value = f"{path}.{key}", getattr(value, key, _NO_VALUE)
    return path, value


_LOADS_A_NAME = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_LOADS_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_NO_VALUE = ("no value",)  # of a name
_PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: lambda items: items,
    tuple: lambda items: items,
    dict: lambda items: [part for pair in items.items() for part in pair],
    types.MappingProxyType: lambda items: [dict(items)],
    types.FunctionType: _of_function,
    types.CodeType: _of_code,
    types.MethodType: lambda method: [method.__self__, method.__func__],
    property: lambda found: [found.fget, found.fset, found.fdel],
    functools.cached_property: lambda found: [found.attrname, found.func],
    staticmethod: lambda method: [method.__func__],
    classmethod: lambda method: [method.__func__],
}
