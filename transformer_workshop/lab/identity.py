"""Would this code compute the same as before?

Code and values are read as they are in memory, because that is what runs: a file may
have been edited since. A function is its instructions, what it captures, and the
globals that it names, followed to wherever they lead. Installed packages, which nobody
edits, count by name and version; the textbook and the workshop count as a whole.
"""

from __future__ import annotations

import ast
import bisect
import copyreg
import dis
import enum
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import random
import re
import struct
import sys
import sysconfig
import time
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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

    It is the same after a restart, and after an edit of comments, docstrings, or of
    where a line stands. Random numbers that nobody seeded, and the order in which a set
    is iterated, are outside the promise. Raises Uncertain if anything can't be read.
    """
    reader = _Reader()
    try:
        reader.read(_surroundings(), "the program")
        for thing in things:
            reader.read(thing)
    except RecursionError:
        raise Uncertain("something is nested too deeply to be read") from None
    return reader.hash.hexdigest()


# Where does code come from?

_WORKSHOP = Path(transformer_workshop.__file__).parent
_TEXTBOOK = Path(annotated_transformer.__file__)
_FLOORS_WITHOUT_TRAINING = ("pictures", "cli")


def _repository_files() -> list[Path]:
    """Return the files of this repository that a training can reach."""
    paths = sorted(_WORKSHOP.rglob("*.py"))
    beside = [_WORKSHOP / floor for floor in _FLOORS_WITHOUT_TRAINING]
    return [_TEXTBOOK, *(p for p in paths if p.parent not in beside)]


def _edited() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in _repository_files()}


_EDITED_BEFORE_IMPORT = _edited()
_REPOSITORY_FILES = frozenset(map(str, _EDITED_BEFORE_IMPORT))
_INSTALLED = tuple(
    {
        str(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        for folder in (sysconfig.get_path(name),)
        for path in (folder, Path(folder).resolve())
    }
)


@functools.cache
def _is_own_file(path: str) -> bool:
    """Return whether a file is neither installed nor one of this repository's."""
    return not path.startswith(_INSTALLED) and path not in _REPOSITORY_FILES


def _is_own_module(name: str) -> bool:
    """Return whether a module, by its name, is somebody's own."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return False
    # A module in C may have no file, as torch._C._nn; then its package has one.
    names = (name, top) if top == "transformer_workshop" else (top, name)
    files = [getattr(sys.modules.get(key), "__file__", None) for key in names]
    return _is_own_file(files[0] or files[1] or "")


def _is_own(function: types.FunctionType) -> bool:
    """Return whether a function's code is somebody's own, or was made by exec."""
    path = function.__code__.co_filename
    if path.startswith("<frozen"):
        return _is_own_module(function.__globals__.get("__name__", ""))
    return _is_own_file(path)


def _captured(function: types.FunctionType) -> dict[str, Any]:
    """Return the values in a function's closure; some may have none yet."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


def _found(module: str, name: str) -> Any:
    """Return what a module has under a dotted name, or None."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


@functools.cache
def _versions(top: str) -> str:
    """Return the versions of an installed package and of what it requires."""
    if top in sys.stdlib_module_names:
        return sys.version
    if top in ("annotated_transformer", "transformer_workshop"):
        return transformer_workshop.__version__  # and its files: see _repository
    names = importlib.metadata.packages_distributions().get(top, [])
    if not names:
        raise Uncertain(f"{top} belongs to no installed package, so it has no version")
    versions: dict[str, str] = {}
    while names:
        name = names.pop()
        if name in versions:
            continue
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # needed elsewhere
            continue
        for line in importlib.metadata.requires(name) or []:
            if "extra ==" not in line:
                names += re.findall(r"^[\w.-]+", line)
    return repr(sorted(versions.items()))


def _without_docstrings(source: str) -> str:
    """Return source as a syntax tree, without comments, docstrings, and positions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
    return ast.dump(tree)


@functools.cache
def _repository() -> str:
    """Return a digest of this repository's code, and of the data that it reads."""
    digest = hashlib.sha256()
    for path in _repository_files():
        digest.update(_without_docstrings(path.read_text(encoding="utf-8")).encode())
    for name in ("train.de", "train.en", "valid.de", "valid.en"):
        try:
            digest.update(data_file("captions", name).read_bytes())
        except DataError:  # installed without its data, so nothing can be trained on it
            digest.update(b"missing")
    return digest.hexdigest()  # Multi30k's files must have known checksums


# What can't be known from code and values


_FORBIDDEN = {
    id(value): (value, why)
    for why, values in {
        "runs code that is only known then": [
            eval, exec, compile, globals, __import__, importlib.import_module,
            importlib.reload,
        ],
        "reads what isn't part of the code": [
            open, input, os.environ, os.getenv, os.urandom, os.listdir, os.scandir,
        ],
        "reads the clock": [
            time.time, time.time_ns, time.perf_counter, time.perf_counter_ns,
            time.monotonic, time.process_time, time.localtime, time.gmtime,
        ],
        "draws a seed by chance": [torch.seed, torch.random.seed, random.SystemRandom],
    }.items()
    for value in values  # type: ignore[attr-defined]
}  # fmt: skip
_READS_FILES = re.compile(
    r"(load|read|open|fetch|download)($|_)|urlopen|from_?file|from_pretrained|memmap"
    r"|loadtxt|genfromtxt"
)
_FORBIDDEN_ATTRIBUTES = {
    **dict.fromkeys(["open", "read_text", "read_bytes", "from_pretrained"], "a file"),
    **dict.fromkeys(["now", "today", "utcnow"], "the clock"),
    **dict.fromkeys(
        ["__code__", "__globals__", "__doc__", "__annotations__", "__subclasses__"],
        "what isn't compared, such as docstrings or annotations",
    ),
    **dict.fromkeys(["f_globals", "f_locals", "_getframe"], "the calling code"),
}
_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs_ex__")


def _patches() -> Iterator[tuple[str, Any]]:
    """Yield functions and classes that were put into modules of others."""
    seen: set[int] = set()
    for name, module in sorted(sys.modules.items()):
        if module is None or name == "__main__" or _is_own_module(name):
            continue
        for key, value in sorted(vars(module).items()):
            if key == "_" or id(value) in seen:  # _: the last result of a terminal
                continue
            if type(value) is types.FunctionType:
                if _is_patch(value):
                    yield f"{name}.{key}", value
            elif issubclass(type(value), type):
                seen.add(id(value))
                home = str(value.__module__)
                if home in sys.modules and _is_own_module(home):
                    yield f"{name}.{key}", value
                    continue
                for member, function in sorted(vars(value).items()):
                    if isinstance(function, types.FunctionType) and _is_patch(function):
                        yield f"{name}.{key}.{member}", function


def _is_patch(function: types.FunctionType) -> bool:
    home = function.__globals__.get("__name__", "")
    return home in sys.modules and _is_own_module(home) and _is_own(function)


def _surroundings() -> list[Any]:
    """Return what every computation depends on."""
    if _edited() != _EDITED_BEFORE_IMPORT:
        raise Uncertain(
            "a file of the workshop was edited since it was imported: restart Python"
        )
    hooks = vars(torch.nn.modules.module)
    functional = vars(torch.nn.functional)
    return [
        [sys.version, torch.__version__, _versions("torch"), _repository()],
        [torch.get_default_dtype(), str(torch.get_default_device())],
        [torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
        [torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled],
        torch.are_deterministic_algorithms_enabled(),
        [(k, v) for k, v in sorted(hooks.items()) if re.match("_global_.*hooks", k)],
        [(k, v.__name__) for k, v in sorted(functional.items()) if callable(v)
         if hasattr(v, "__name__")],
        list(_patches()),
    ]  # fmt: skip


# Instructions

_SILENT = {"NOP", "CACHE", "RESUME", "EXTENDED_ARG"}
_NOT_COMPARED = {
    "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__dict__",
    "__static_attributes__", "__weakref__", "_abc_impl", "__slotnames__",
}  # fmt: skip
_CONSTANTS = {"LOAD_CONST", "LOAD_SMALL_INT"}
_JUMPS = {*dis.hasjrel, *dis.hasjabs}


@functools.cache
def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    """Return what a code object does, without line numbers and docstrings."""
    kept: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_NAME" and instruction.argval in _NOT_COMPARED:
            if kept[-1].opname in _CONSTANTS:  # in the body of a class
                kept.pop()
                continue
        if instruction.opname not in _SILENT:
            kept.append(instruction)
    return kept


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code, and that of the functions inside it."""
    yield code
    for instruction in _instructions(code):
        if isinstance(instruction.argval, types.CodeType):
            yield from _codes(instruction.argval)


_LOADS_A_NAME = {
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_DEREF",
    "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF",
}  # fmt: skip


def _uses(code: types.CodeType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each name that code loads, with the attributes that follow: a.b.c."""
    instructions = _instructions(code)
    for i, instruction in enumerate(instructions):
        if instruction.opname in _LOADS_A_NAME:
            chain = []
            for following in instructions[i + 1 :]:
                if following.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                chain.append(following.argval)
            yield instruction.argval, tuple(chain)


def _imports(code: types.CodeType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the modules that a function imports when it runs, and what from them."""
    instructions = _instructions(code)
    for i, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            level, names = instructions[i - 2].argval, instructions[i - 1].argval
            yield "." * level + instruction.argval, names or ()


# Reading


class _Reader:
    """Read things into a digest, in an order that depends on nothing but them."""

    def __init__(self, path: Iterable[tuple[str, Any]] = ()) -> None:
        self.hash = hashlib.sha256()
        self.path = list(path)
        # What has an identity is read once and then named by its number. It is kept
        # here, so that its address isn't given to something else.
        self.numbers: dict[Any, tuple[int, Any]] = {}

    def say(self, *parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8")
            self.hash.update(b"%d:" % len(data) + data)

    def uncertain(self, thing: Any, why: str) -> Uncertain:
        """Return a sentence like "x, which f names, is a lock, whose state …"."""
        where, whole = self.path[-1] if self.path else ("what was given", None)
        if isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType):
            if whole is thing:
                return Uncertain(f"{where} {why.removeprefix('which ')}")
            what = thing.__name__
        else:
            kind = type(thing).__name__
            what = f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
        verb = "is" if whole is thing else "holds"
        return Uncertain(f"{where} {verb} {what}, {why}")

    def read(self, thing: Any, where: str = "") -> None:
        """Read a thing, with the values that it holds."""
        if where:
            self.path.append((where, thing))
        if id(thing) in _FORBIDDEN:
            raise self.uncertain(thing, f"which {_FORBIDDEN[id(thing)][1]}")
        kind = type(thing)
        if thing is _UNDEFINED:
            self.say("undefined")
        elif kind in _ATOMS:
            self.say(kind.__name__, _ATOMS[kind](thing))  # type: ignore[operator]
        elif kind in (tuple, frozenset):  # equal ones may or may not be one object
            self.contents(thing)
        elif id(thing) in self.numbers:
            self.say("again", self.numbers[id(thing)][0])
        else:
            self.numbers[id(thing)] = len(self.numbers), thing
            self.contents(thing)
        if where:
            self.path.pop()

    @functools.singledispatchmethod
    def contents(self, thing: Any) -> None:
        """Read what a thing consists of, by its kind."""
        self.restored(thing)

    def restored(self, thing: Any) -> None:
        """Read an object by its class, and by what pickle would restore it from."""
        module, name = (getattr(thing, k, None) for k in ("__module__", "__qualname__"))
        if isinstance(name, str) and isinstance(module, str):
            if not _is_own_module(module) and _found(module, name) is thing:
                self.by_name(thing, module, name)
                return
        kind = type(thing)
        for base in kind.__mro__:
            for key in _PICKLING:
                method = vars(base).get(key)
                if isinstance(method, types.FunctionType) and _is_own(method):
                    raise self.uncertain(thing, f"whose {key} may hide a part of it")
        reduce = copyreg.dispatch_table.get(kind)
        try:
            state = reduce(thing) if reduce else thing.__reduce_ex__(4)
        except Exception:
            raise self.uncertain(thing, "whose state can't be read") from None
        if isinstance(state, str):
            raise self.uncertain(thing, "which is known by its name alone")
        self.say("object")
        self.read(kind)
        made_by, arguments, *rest = state
        self.read(made_by)
        self.read(arguments)
        if rest:
            self.read(rest[0], f"an object of {kind.__qualname__}")
        for items in rest[1:3]:
            self.read(None if items is None else list(items))
        self.read(tuple(rest[3:]))

    def by_name(self, thing: Any, module: str, name: str) -> None:
        """Read what an installed package has under a name."""
        if _READS_FILES.match(name.rpartition(".")[2]):
            raise self.uncertain(thing, "which reads files")
        self.say("installed", module, name, _versions(module.partition(".")[0]))

    @contents.register(list)
    @contents.register(tuple)
    def _sequence(self, thing: list | tuple) -> None:
        if type(thing) not in (list, tuple):
            self.restored(thing)
            return
        self.say(type(thing).__name__, len(thing))
        for item in thing:
            self.read(item)

    @contents.register
    def _mapping(self, thing: dict) -> None:
        if type(thing) is not dict:
            self.restored(thing)
            return
        self.say("dict", len(thing))
        for key, value in thing.items():
            self.read(key)
            self.read(value)

    @contents.register
    def _read_only_mapping(self, thing: types.MappingProxyType) -> None:
        self.say("mappingproxy")
        self.read(dict(thing))

    @contents.register(set)
    @contents.register(frozenset)
    def _set(self, thing: set | frozenset) -> None:
        def alone(item: Any) -> str:
            reader = _Reader(self.path)
            reader.read(item)
            return reader.hash.hexdigest()

        self.say("set", len(thing))
        self.read(type(thing))
        for item in sorted(thing, key=alone):
            self.read(item)
        self.read(object.__getstate__(thing))

    @contents.register
    def _member(self, thing: enum.Enum) -> None:
        self.say("member")
        self.read(type(thing))
        self.read(object.__getstate__(thing))

    @contents.register
    def _tensor(self, thing: Tensor) -> None:
        if thing.grad_fn is not None or thing.layout != torch.strided:
            raise self.uncertain(thing, "which is sparse or part of a computation")
        self.say("tensor", thing.dtype, thing.device, tuple(thing.shape))
        self.say(thing.stride(), thing.requires_grad, thing.storage_offset())
        self.read(type(thing))
        if thing.device.type != "meta":
            storage = thing.untyped_storage()
            self.memory(storage.data_ptr(), storage)
            plain = thing.detach().cpu().resolve_conj().resolve_neg().contiguous()
            self.say(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
        hooks = thing._backward_hooks or None  # pickle makes None an empty one
        self.read([thing.grad, hooks, vars(thing)])

    @contents.register
    def _array(self, thing: np.ndarray) -> None:
        if not (thing.flags.c_contiguous or thing.flags.f_contiguous):
            raise self.uncertain(thing, "a view of another array: copy it")
        self.say("array", thing.shape, thing.flags.c_contiguous, thing.flags.writeable)
        self.read(type(thing))
        self.read(thing.dtype)
        root: Any = thing
        while isinstance(root.base, np.ndarray):
            root = root.base
        self.memory(root.__array_interface__["data"][0] if root.size else 0, root)
        if thing.dtype.hasobject:
            self.read(thing.tolist())
        else:
            self.say(thing.tobytes(order="A"))
        self.read(getattr(thing, "__dict__", None))

    def memory(self, address: int, owner: Any) -> None:
        """Say which tensors or arrays share memory, by a number."""
        key = "memory", address
        self.numbers.setdefault(key, (len(self.numbers), owner))
        self.say(self.numbers[key][0] if address else "empty")

    @contents.register(torch.dtype)
    @contents.register(torch.layout)
    @contents.register(torch.memory_format)
    def _constant(self, thing: Any) -> None:
        self.say("constant", thing)

    @contents.register
    def _ufunc(self, thing: np.ufunc) -> None:
        if getattr(np, thing.__name__, None) is not thing:
            raise self.uncertain(thing, "whose code can't be read")
        self.by_name(thing, "numpy", thing.__name__)

    @contents.register
    def _module(self, thing: types.ModuleType) -> None:
        raise self.uncertain(thing, "of which it isn't known what is used")

    @contents.register
    def _class(self, thing: type) -> None:
        module, name = thing.__module__, thing.__qualname__
        if not _is_own_module(module) and _found(module, name) is thing:
            self.by_name(thing, module, name)
            return
        self.say("class", thing.__name__)
        self.read(type(thing))
        self.read(thing.__bases__)
        for key, value in sorted(vars(thing).items()):
            if key not in _NOT_COMPARED:
                self.say(key)
                self.read(value, f"{name}.{key}")

    @contents.register
    def _property(self, thing: property) -> None:
        self.say("property")
        self.read([thing.fget, thing.fset, thing.fdel])

    @contents.register
    def _cached_property(self, thing: functools.cached_property) -> None:
        self.say("cached_property", thing.attrname)
        self.read(thing.func)

    @contents.register(staticmethod)
    @contents.register(classmethod)
    def _wrapped(self, thing: staticmethod | classmethod) -> None:
        self.say(type(thing).__name__)
        self.read(thing.__func__)

    @contents.register(functools._lru_cache_wrapper)
    def _cached(self, thing: Any) -> None:
        module, name = thing.__module__, thing.__qualname__
        if not _is_own_module(module) and _found(module, name) is thing:
            self.by_name(thing, module, name)
            return
        self.say("cached")  # what it has stored is what it would compute
        self.read([thing.__wrapped__, thing.cache_parameters()])

    @contents.register
    def _method(self, thing: types.MethodType) -> None:
        self.say("method")
        self.bound_to(thing.__self__)
        self.read(thing.__func__)

    @contents.register
    def _builtin(self, thing: types.BuiltinFunctionType) -> None:
        owner = thing.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            module = owner.__name__ if owner else thing.__module__ or ""
            self.by_name(thing, module, thing.__qualname__)
        else:
            self.say("bound", thing.__name__)
            self.bound_to(owner)

    def bound_to(self, owner: Any) -> None:
        if owner is random._inst or owner is np.random.mtrand._rand:  # type: ignore
            why = "the generator that all share: use one of your own, with a seed"
            raise self.uncertain(owner, why)
        self.read(owner)

    @contents.register(types.MethodWrapperType)
    def _method_wrapper(self, thing: Any) -> None:
        self.say("bound", thing.__name__)
        self.read(thing.__self__)

    @contents.register(types.WrapperDescriptorType)
    @contents.register(types.MethodDescriptorType)
    @contents.register(types.ClassMethodDescriptorType)
    @contents.register(types.GetSetDescriptorType)
    @contents.register(types.MemberDescriptorType)
    def _descriptor(self, thing: Any) -> None:
        owner = thing.__objclass__
        slot = isinstance(
            thing, types.MemberDescriptorType | types.GetSetDescriptorType
        )
        if not slot and _is_own_module(owner.__module__):
            raise self.uncertain(thing, "which isn't written in Python")
        self.say("descriptor", thing.__name__)
        self.read(owner)

    @contents.register
    def _function(self, thing: types.FunctionType) -> None:
        code, module = thing.__code__, thing.__globals__.get("__name__", "")
        name = code.co_name if code.co_name != "<lambda>" else "a lambda"
        # One that a package made for us, such as a decorator's, is read like our own.
        if not _is_own(thing) and _found(module, code.co_qualname) is thing:
            self.by_name(thing, module, code.co_qualname)
            return
        self.say("function")
        self.read(code, name)
        self.read([thing.__defaults__, thing.__kwdefaults__], f"a default of {name}")
        for key, value in _captured(thing).items():
            self.say(key)
            self.read(value, f"{key}, which {name} captures,")
        self.read(vars(thing), f"an attribute of {name}")
        self.path.append((name, thing))
        self.named(thing)
        self.path.pop()

    def named(self, function: types.FunctionType) -> None:
        """Read what a function and those inside it name: globals and imports."""
        name_of_function, _ = self.path[-1]
        package = function.__globals__.get("__package__") or ""
        uses: set[tuple[str, tuple[str, ...]]] = set()
        attributes: set[str] = set()
        codes = list(_codes(function.__code__))
        for code in codes:
            uses.update(_uses(code))
            attributes.update(code.co_names)
        for code in codes:
            for name, wanted in _imports(code):
                name = importlib.util.resolve_name(name, package)
                self.imported(name, wanted, attributes)
        for name in sorted(_FORBIDDEN_ATTRIBUTES.keys() & attributes):
            depends = f"so it may depend on {_FORBIDDEN_ATTRIBUTES[name]}"
            raise Uncertain(f"{name_of_function} names {name}, {depends}")
        values = {**function.__builtins__, **function.__globals__}  # type: ignore[attr-defined]  # noqa: E501
        values |= _captured(function)
        for name, chain in sorted(uses):
            self.say(name)
            value = values.get(name, _UNDEFINED)
            if not isinstance(value, types.ModuleType):
                self.read(value, f"{name}, which {name_of_function} names,")
            else:
                self.attribute(value, chain, attributes)

    def imported(self, name: str, wanted: tuple, attributes: set[str]) -> None:
        """Read a module that a function imports, or what it takes from there."""
        self.say("import", name)
        try:
            module = importlib.import_module(name)
        except ImportError:
            self.say("missing")
            return
        for key in wanted:
            self.attribute(module, (key,), attributes)
        if not wanted:
            top = sys.modules[name.partition(".")[0]]  # a, after "import a.b"
            for each in (module, top):
                self.handed_on(each, attributes)

    def attribute(
        self, module: types.ModuleType, chain: tuple[str, ...], attributes: set[str]
    ) -> None:
        """Read what a chain of attributes leads to, from a module through modules."""
        value: Any = module
        where = module.__name__
        for key in chain:
            if value is torch.ops and key not in ("aten", "prims"):
                raise Uncertain(f"the code of torch.ops.{key} can't be read")
            value = getattr(value, key, _UNDEFINED)
            where += f".{key}"
            if not isinstance(value, types.ModuleType):
                break
        self.say(where)
        if isinstance(value, types.ModuleType):
            self.handed_on(value, attributes)
        else:
            self.read(value, f"{where}, which {self.path[-1][0]} names,")

    def handed_on(self, module: types.ModuleType, attributes: set[str]) -> None:
        """Read a module of which any attribute that code names may be used."""
        name = module.__name__
        self.say("module", name)
        key = name, tuple(sorted(attributes))
        if key in self.numbers:
            return
        self.numbers[key] = len(self.numbers), module
        if name == "__main__":
            raise self.uncertain(module, "of which it isn't known what is used")
        if _is_own_module(name):
            attributes = {*attributes, *(k for k in vars(module) if k[:2] != "__")}
        else:
            self.say(_versions(name.partition(".")[0]))
        for key in sorted(attributes):  # type: ignore[assignment]
            if hasattr(module, key):  # type: ignore[arg-type]
                self.attribute(module, (key,), attributes)  # type: ignore[arg-type]

    @contents.register
    def _code(self, thing: types.CodeType) -> None:
        instructions = _instructions(thing)
        offsets = [instruction.offset for instruction in instructions]

        def number_of(offset: int) -> int:
            return bisect.bisect_left(offsets, offset)

        arguments = thing.co_argcount + thing.co_kwonlyargcount
        self.say("code", thing.co_name, thing.co_argcount, thing.co_posonlyargcount)
        self.say(thing.co_kwonlyargcount, thing.co_flags & ~_HAS_DOCSTRING)
        self.say(thing.co_varnames[: arguments + 2], thing.co_freevars)
        for instruction in instructions:
            self.say(instruction.opname)
            if instruction.opcode in dis.hasconst:
                self.read(instruction.argval)
            elif instruction.opcode in _JUMPS:
                self.say(number_of(instruction.argval))
            else:
                self.say(instruction.argrepr or instruction.arg)
        for entry in dis.Bytecode(thing).exception_entries:  # type: ignore[attr-defined]  # noqa: E501
            start, end = number_of(entry.start), number_of(entry.end)
            if start < end:
                target = number_of(entry.target)
                self.say("except", start, end, target, entry.depth, entry.lasti)


_UNDEFINED = object()  # a name without a value
_HAS_DOCSTRING = 0x4000000  # CO_HAS_DOCSTRING, from Python 3.14 on
_ATOMS = {
    type(None): str,
    type(...): str,
    type(NotImplemented): str,
    bool: str,
    int: str,
    float: functools.partial(struct.pack, ">d"),
    complex: lambda z: struct.pack(">dd", z.real, z.imag),
    str: lambda text: text.encode("utf-8", "surrogatepass"),
    bytes: bytes,
}
