"""What runs in a student's process: an exercise's cells, and questions about them.

The process is forked from one that has imported everything (`main`, which grade.py
starts). It knows neither the teacher's seed nor what is right; it gets inputs and gives
back plain values. Those come as bytes that PyTorch's restricted unpickler reads, which
makes nothing but numbers, strings, tensors, and containers of them.

Where Linux gives them to everyone, the process has namespaces of its own: it sees no
other processes, has no network, and can write only to a folder that vanishes with it.
It is their first process, so when it ends, the kernel ends all that it has started.
Elsewhere, a process that waits for it ends those that it finds.
"""

import __future__

import ast
import asyncio
import ctypes
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
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
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
PROCESSES = 200  # that it may start, in namespaces of its own
LINUX = sys.platform == "linux"
# Of Linux: new namespaces of users, processes, network, IPC, and mounts; other names
SPACES = 0x10000000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x00020000
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY, MOUNT_SETATTR = -100, 0x8000, 1, 442
MS_NOSUID_NODEV, MS_NOEXEC = 6, 8
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, CAPABILITY_VERSION_3 = 36, 38, 0x20080522


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


def own_spaces() -> bool:
    """Move into new namespaces of users, processes, network, IPC, and mounts.

    The next process that is forked is the first in them. Return whether that is
    possible here; if not, nothing has changed.
    """
    user, group = os.getuid(), os.getgid()
    if not LINUX or ctypes.CDLL(None).unshare(SPACES):
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def shut(room: str, hidden: list[str]) -> bool:
    """Make all files read-only, and give up the right to undo it.

    ``room`` becomes an empty folder that can be written to, and so do those in
    ``hidden``, whose content is out of sight. Return whether that is possible here.
    """
    libc = ctypes.CDLL(None)
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY)
    if libc.syscall(MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, 32):
        return False
    for folder in (*hidden, "/run", "/dev/shm", room):
        if folder == room:
            Path(room).mkdir(parents=True, exist_ok=True)  # it was in one of the others
        if Path(folder).is_dir():
            where = os.fsencode(folder)
            if libc.mount(b"none", where, b"tmpfs", MS_NOSUID_NODEV, b"size=64m"):
                return False
    # A container may refuse this one; processes can't be touched without it, either.
    libc.mount(b"none", b"/proc", b"proc", MS_NOSUID_NODEV | MS_NOEXEC, None)
    no_rights = (ctypes.c_uint32 * 6)()
    return not (
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        or libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), no_rights)
    )


def in_child(act: Callable[[], bool]) -> int:
    """Fork a process that ends after an action, and return its number."""
    if child := os.fork():
        return child
    try:
        code = 1 - act()
    except BaseException:
        code = 1
    os._exit(code)


def closes(room: str, hidden: list[str]) -> bool:
    """Return whether this system can shut a process in."""

    def trial() -> bool:
        return own_spaces() and waited(in_child(partial(shut, room, hidden)))

    def waited(child: int) -> bool:
        return os.waitpid(child, 0)[1] == 0

    return waited(in_child(trial))


def main(address: str, *hidden: str) -> None:
    """Fork a process for each connection, until nobody listens to this one.

    Print a line when it can begin. Where that is possible, they can write only to what
    is the folder of ``address`` for others, and don't see the folders in ``hidden``.
    """
    room = str(Path(address).parent)
    inside = closes(room, list(hidden))
    known = probes()
    exec(ALONE, {})  # what it imports need not be imported by each process

    def work(connection: Connection) -> bool:
        os.setpgid(0, 0)
        if inside:
            if not shut(room, list(hidden)):
                return False
            resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
        os.chdir(room)
        tempfile.tempdir = os.environ["TMPDIR"] = room
        serve(connection, known)
        return True

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
            keep(work, Connection(accepted.detach()), inside)
            os._exit(0)


def keep(
    work: Callable[[Connection], bool], connection: Connection, inside: bool
) -> None:
    """Run an answer; send its process's number; and end all that it leaves.

    The connection's other end reads its end when nothing is left. ``inside``: the
    answer gets namespaces, and what it leaves ends with them.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    if inside:
        own_spaces()
    elif LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = in_child(partial(work, connection))
    with suppress(OSError):  # it has done so, and has ended or goes on
        os.setpgid(child, child)
    connection.send_bytes(str(child).encode())
    os.waitpid(child, 0)
    while not inside and (left := psutil.Process().children(recursive=True)):
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def probes() -> dict[tuple[str, str], Any]:
    """Return the functions of the checks that can run beside an answer."""
    return {
        (module.__name__, name): value
        for module in (checking, *map(checking.module, checking.names()))
        for name, value in vars(module).items()
        if callable(value)
    }


def serve(connection: Connection, known: dict[tuple[str, str], Any]) -> None:
    """Run cells, say what the expression is, and answer questions until the end.

    The first message is (cells, expression). A question is (number of a function,
    module and name of a probe, inputs). A reply is a dictionary with one of "answer",
    "stopped", and "unanswered".
    """
    cells, expression = pickle.loads(connection.recv_bytes())
    limit(MEMORY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    torch.set_num_threads(1)
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
        return plain(known[probe](functions[number], *inputs))

    reply(start)
    while True:
        reply(partial(ask, *pickle.loads(connection.recv_bytes())))


if __name__ == "__main__":
    main(*sys.argv[1:])
