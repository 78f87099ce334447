"""What does a GGUF file say, and how are its weights unpacked?

GGUF is the format of llama.cpp: a header with facts (sizes, the tokenizer), the names
and shapes of tensors, and then their weights, often packed into a few bits each.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from annotated_transformer import DataError
from transformer_workshop.base.files import reported

# a fact's kind: the letter that struct has for it
_LETTER = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q",
           11: "q", 12: "d"}  # fmt: skip
_TEXT, _LIST = 8, 9


def _half(block: np.ndarray, at: int) -> np.ndarray:
    """Return the 16-bit number at a place of each block (n, bytes): (n, 1)."""
    return block[:, at : at + 2].copy().view(np.float16).astype(np.float32)


def float32(block: np.ndarray) -> np.ndarray:
    """Return numbers that aren't packed."""
    return block.copy().view(np.float32)


def q8_0(block: np.ndarray) -> np.ndarray:
    """Return 32 weights a block (n, 34): a scale, then a signed byte for each."""
    return _half(block, 0) * block[:, 2:].view(np.int8)


def q4_1(block: np.ndarray) -> np.ndarray:
    """Return 32 weights a block (n, 20): a scale, a minimum, then half a byte each.

    The low halves of the 16 bytes are the first 16 weights.
    """
    packed = block[:, 4:]
    fours = np.concatenate([packed & 15, packed >> 4], axis=1)
    return _half(block, 0) * fours + _half(block, 2)


# a tensor's kind: bytes and weights in a block, and what unpacks them
_PACKED = {0: (4, 1, float32), 3: (20, 32, q4_1), 8: (34, 32, q8_0)}


class Gguf:
    """An open file: its ``facts``, and the names of its tensors in ``places``.

    Raises DataError for a file that is no GGUF, or ends too early.
    """

    def __init__(self, path: str | Path):
        self.path, self._at = Path(path), 0
        do = "Fetch it again."
        with reported(OSError, path, "can't be read ({})", "Check its name and place."):
            with open(path, "rb") as file:
                if file.read(4) != b"GGUF":
                    raise DataError(path, "is not a GGUF file", do)
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        errors = struct.error, ValueError, KeyError
        with reported(errors, path, "is damaged or of another version ({})", do):
            _, version, tensors, facts = self._take("<4sIQQ")
            if version not in (2, 3):
                raise ValueError(f"version {version}")
            self.facts: dict[str, Any] = {}
            for _ in range(facts):
                name, (kind,) = self._text(), self._take("<I")
                self.facts[name] = self._value(kind)
            self.places: dict[str, tuple[int, tuple[int, ...], int]] = {}
            for _ in range(tensors):
                name, (axes,) = self._text(), self._take("<I")
                *shape, kind, start = self._take(f"<{axes}QIQ")
                self.places[name] = kind, tuple(reversed(shape)), start
            step = self.facts.get("general.alignment", 32)
            self._start = -(-self._at // step) * step  # the next multiple

    def _take(self, form: str) -> tuple[Any, ...]:
        """Read what struct calls a format, and go on behind it."""
        values = struct.unpack_from(form, self._bytes, self._at)
        self._at += struct.calcsize(form)
        return values

    def _text(self) -> str:
        (length,) = self._take("<Q")
        return self._take(f"<{length}s")[0].decode()

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _LIST:
            kind, length = self._take("<IQ")
            if kind in _LETTER:
                return list(self._take(f"<{length}{_LETTER[kind]}"))
            return [self._value(kind) for _ in range(length)]
        return self._take("<" + _LETTER[kind])[0]

    def blocks(self, name: str) -> np.ndarray:
        """Return a tensor as it lies in the file: bytes (blocks, bytes in a block).

        Raises DataError for a way of packing that we can't undo.
        """
        kind, shape, start = self.places[name]
        if kind not in _PACKED:
            what = f"packs {name} in a way that is read nowhere here (kind {kind})"
            do = "Take a copy with F32, Q8_0, or Q4_1 alone, or the weights themselves."
            raise DataError(self.path, what, do)
        width, weights, _ = _PACKED[kind]
        number = int(np.prod(shape)) // weights
        do = "Fetch it again."
        with reported(ValueError, self.path, "ends too early ({})", do):
            raw = np.frombuffer(
                self._bytes, np.uint8, number * width, self._start + start
            )
        return raw.reshape(number, width)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor, unpacked into 32 bits."""
        kind, shape, _ = self.places[name]
        blocks = self.blocks(name)
        return torch.from_numpy(_PACKED[kind][2](blocks)).view(shape)
