"""What machine is this, and how busy is it?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from annotated_transformer import DataError, optional_import
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.text_files import read_lines


def processor_name() -> str:
    """Return the processor's name as the system reports it."""
    file = Path("/proc/cpuinfo")  # on Linux
    for line in read_lines(file) if file.exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _current_commit() -> str | None:
    """Return the commit of the repository that contains the module, or None."""
    folder = project_folder()
    if not (folder / ".git").exists() or not shutil.which("git"):
        return None
    options = ["--always", "--dirty", "--abbrev=40", "--exclude=*"]
    command = ["git", "-C", str(folder), "describe", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def describe_environment() -> dict[str, Any]:
    """Return what produced a result: command, commit, versions, and processor."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for package in ("torchtext", "spacy", "tokenizers", "sacrebleu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": _current_commit(),
        "versions": versions,
        "processor": processor_name(),
        "cores": os.cpu_count(),
    }


def choose_device(name: str = "auto") -> torch.device:
    """Return the device with that name; auto means cuda, else mps, else cpu.

    Raises DataError if this machine or this PyTorch does not have the device.
    """
    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(kind for kind, there in present.items() if there)
    kind = name.partition(":")[0]
    numbers = range(torch.cuda.device_count() if kind == "cuda" else 1)
    known = [kind, *(f"{kind}:{number}" for number in numbers)]
    if not present.get(kind) or name not in known:
        there = [kind for kind in present if present[kind]]
        raise DataError(f"device {name}", "is not there", f"Use {' or '.join(there)}.")
    return torch.device(name)


def gpu_report() -> list[str]:
    """Return a line on the load and memory of each NVIDIA GPU; empty without one."""
    try:
        gpus = optional_import("GPUtil").getGPUs()
    except ImportError as error:  # a missing report must not end the run
        return [str(error)]
    except ValueError:  # nvidia-smi exists but reports that there is no GPU
        return []
    return [
        f"GPU {gpu.id} ({gpu.name}): {gpu.load:.0%} busy, "
        f"{gpu.memoryUsed:,.0f} of {gpu.memoryTotal:,.0f} MiB used"
        for gpu in gpus
    ]
