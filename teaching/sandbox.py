"""What runs in a student's process: an exercise's cells, and questions about them.

The process is forked from one that has imported everything (`main`, which grade.py
starts). It knows neither the teacher's seed nor what is right; it gets inputs and gives
back plain values. Those come as bytes that PyTorch's restricted unpickler reads, which
makes nothing but numbers, strings, tensors, and containers of them.
"""

import __future__

import ast
import asyncio
import inspect
import io
import linecache
import os
import pickle
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from IPython.core.inputtransformer2 import TransformerManager

from transformer_workshop.exercises import checking
from transformer_workshop.notebooks import ALONE

LARGEST = 64 * 2**20  # bytes of an answer
CALLERS = (
    __file__, "<string>",
    asyncio.runners.__file__, asyncio.base_events.__file__,
)  # fmt: skip
MEMORY = 2 * 2**30  # bytes that an answer may use beside what is imported


class Unsendable(Exception):
    """A value of a kind that no exercise asks for; the message is its type."""


def plain(value: Any) -> Any:
    """Return a value as built-in types and tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone().as_subclass(torch.Tensor)
    if isinstance(value, Iterator):
        value = list(value)
    if isinstance(value, dict):
        return {plain(name): plain(inner) for name, inner in value.items()}
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            return kind(map(plain, value))
    if hasattr(value, "item"):  # a number of NumPy's
        value = value.item()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    raise Unsendable(type(value).__name__)


def described(value: Any, functions: list) -> Any:
    """Return an answer in which numbers stand for functions, which go into a list."""
    if type(value) in (tuple, list):
        return type(value)(described(part, functions) for part in value)
    if value is ...:
        return None
    if callable(value):
        functions.append(value)
        return {"function": len(functions) - 1}
    return {"value": plain(value)}


class Jupyter:
    """What `get_ipython()` returns: of commands, only their Python is run."""

    def __init__(self, name: str, names: dict[str, Any]):
        self.name, self.names = name, names

    def run_line_magic(self, command: str, line: str, *_: Any, **__: Any) -> Any:
        if command != "time":
            return None
        try:
            code = compile(line, self.name, "eval")
        except SyntaxError:  # a statement
            code = compile(line, self.name, "exec")
        return eval(code, self.names)

    def run_cell_magic(self, command: str, line: str, cell: str) -> None:
        if command in ("capture", "prun", "time", "timeit"):
            run(cell, self.name, self.names)

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


def run(source: str, name: str, names: dict[str, Any]) -> None:
    """Run a cell as Jupyter would, with its lines in error messages."""
    names["get_ipython"] = lambda: Jupyter(name, names)
    source = TransformerManager().transform_cell(source)
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    flags = __future__.annotations.compiler_flag | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    result = eval(compile(source, name, "exec", flags), names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def limit(memory: int) -> None:
    """Keep this process from filling the machine's memory or disk."""
    if (statm := Path("/proc/self/statm")).exists():
        memory += int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))


def main(address: str) -> None:
    """Fork a process for each connection, until nobody listens to this one."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while server in select.select([server, sys.stdin], [], [])[0]:
            accepted, _ = server.accept()
            if os.fork():
                accepted.close()
                continue
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(Connection(accepted.detach()))
            os._exit(0)


def serve(connection: Connection) -> None:
    """Run cells, say what the expression is, and answer questions until the end.

    The first message is this process's number, and the first answer (cells,
    expression). A question is (number of a function, module and name of a probe,
    inputs). A reply is a dictionary with one of "answer", "stopped", and "unanswered".
    """
    os.setsid()
    connection.send_bytes(str(os.getpid()).encode())
    cells, expression = pickle.loads(connection.recv_bytes())
    limit(MEMORY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    torch.set_num_threads(1)
    probes = {
        (module.__name__, name): value
        for module in (checking, *map(checking.module, checking.names()))
        for name, value in vars(module).items()
        if callable(value)
    }
    functions: list[Any] = []
    failed: list[BaseException] = []  # in cells; the others run, as in a notebook

    def reply(make: Any) -> None:
        try:
            said = {"answer": make()}
        except Unsendable as error:
            said = {"stopped": f"your answer gives a value of type {error}"}
        except BaseException as error:
            if failed and isinstance(error, NameError):  # for a name of that cell
                error = failed[0]
            said = {"stopped": checking.stopped(error, CALLERS)}
            if isinstance(error, NotImplementedError):
                said = {"unanswered": True}
        stored = io.BytesIO()
        torch.save(said, stored)
        connection.send_bytes(stored.getvalue())

    def start() -> Any:
        names: dict[str, Any] = {"__name__": "__main__", "display": print}
        exec(ALONE, names)
        for number, source in enumerate(cells, 1):
            try:
                run(source, f"<cell {number}>", names)
            except BaseException as error:
                failed.append(error)
        answer = eval(expression, names)
        if failed and answer is None:  # it is still the stub's
            raise failed[0]
        return described(answer, functions)

    def ask(number: int, probe: tuple[str, str], inputs: tuple) -> Any:
        return plain(probes[probe](functions[number], *inputs))

    reply(start)
    while True:
        reply(partial(ask, *pickle.loads(connection.recv_bytes())))


if __name__ == "__main__":
    main(sys.argv[1])
