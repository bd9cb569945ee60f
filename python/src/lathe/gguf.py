"""Weights of GGUF files, over the mapped file."""

import collections.abc
import mmap
import os
import struct

import numpy

from ._core import QuantisedWeight
from ._results import dtype

# Tensor types of the format: name, elements and bytes of a block. Lathe multiplies only some of them; the others can
# be listed.
_TYPES = {
    0: ("float32", 1, 4), 1: ("float16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34), 9: ("q8_1", 32, 36), 10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144), 13: ("q5_k", 256, 176), 14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66), 17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82), 23: ("iq4_xs", 256, 136),
    24: ("int8", 1, 1), 25: ("int16", 1, 2), 26: ("int32", 1, 4), 27: ("int64", 1, 8), 28: ("float64", 1, 8),
    29: ("iq1_m", 256, 56), 30: ("bfloat16", 1, 2), 34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17),
}
# Value types of metadata: struct format of those with a fixed size. 8 is a string, 9 an array.
_VALUES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class _Reader:
    """Reads the header. Any input is safe: what does not fit the file raises ValueError."""

    def __init__(self, data, path):
        self.data, self.path, self.at = data, path, 0

    def fail(self, cause):
        raise ValueError(f"{self.path} is not a GGUF file that can be read: {cause}, at byte {self.at}")

    def take(self, count):
        if count > len(self.data) - self.at:
            self.fail("it is cut off")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self):
        return bytes(self.take(self.number("Q"))).decode("utf-8", "replace")

    def value(self, kind, depth=0):
        if kind in _VALUES:
            return self.number(_VALUES[kind])
        if kind == 8:
            return self.text()
        if kind != 9 or depth > 4:
            self.fail(f"value type {kind} is unknown")
        kind, count = self.number("I"), self.number("Q")
        if kind in _VALUES:
            size = struct.calcsize("<" + _VALUES[kind])
            return list(struct.unpack(f"<{count}{_VALUES[kind]}", self.take(count * size)))
        if count > len(self.data) - self.at:
            self.fail("it is cut off")
        return [self.value(kind, depth + 1) for _ in range(count)]


class File(collections.abc.Mapping):
    """The tensors of a file: name -> QuantisedWeight. .metadata is a dict of the file's key-value pairs.

    The file is mapped, and every weight keeps the mapping alive. Do not change the file meanwhile.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ValueError(f"{self.path} is not a GGUF file: it is empty")
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._read(_Reader(self._data, self.path))

    def _read(self, reader):
        if bytes(reader.take(4)) != b"GGUF":
            reader.fail("it does not begin with GGUF")
        version = reader.number("I")
        if version not in (2, 3):
            reader.fail(f"version {version} is none of 2 and 3 (little-endian)")
        tensors, pairs = reader.number("Q"), reader.number("Q")
        self.metadata = {}
        for _ in range(pairs):
            name = reader.text()
            self.metadata[name] = reader.value(reader.number("I"))
        infos = []
        for _ in range(tensors):
            name, dimensions = reader.text(), reader.number("I")
            if dimensions > 4:
                reader.fail(f"{name} has {dimensions} dimensions")
            shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]
            infos.append((name, shape, reader.number("I"), reader.number("Q")))
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            reader.fail(f"general.alignment is {alignment!r}")
        start = -(-reader.at // alignment) * alignment
        self._tensors = {name: self._tensor(reader, name, shape, kind, start + offset)
                         for name, shape, kind, offset in infos}

    def _tensor(self, reader, name, shape, kind, offset):
        if kind not in _TYPES:
            return f"type{kind}", shape, offset, 0
        label, elements, size = _TYPES[kind]
        count = 1
        for extent in shape:
            count *= extent
        count = count // elements * size
        if shape and shape[-1] % elements != 0:
            reader.fail(f"{name} has rows of {shape[-1]} elements, which are no whole blocks of {elements}")
        if offset + count > len(self._data):
            reader.fail(f"{name} ends after the file")
        return label, shape, offset, count

    def __getitem__(self, name):
        label, shape, offset, count = self._tensors[name]
        return QuantisedWeight(self._data[offset:offset + count], label, shape)

    def numpy(self, name):
        """A float or integer tensor (norms, biases) as a read-only NumPy array over the file."""
        label, shape, offset, count = self._tensors[name]
        try:
            kind = dtype(label)
        except TypeError as error:
            raise ValueError(f"{name} has dtype {label}, which NumPy does not have") from error
        return numpy.frombuffer(self._data[offset:offset + count], kind).reshape(shape)

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def __repr__(self):
        return f"<lathe.gguf.File {self.path}: {len(self)} tensors>"


def load(path):
    """Maps a GGUF file (version 2 or 3, little-endian) and returns its tensors by name.

    Nothing is copied: lathe.matmul(x, lathe.gguf.load(path)["blk.0.ffn_up.weight"]) reads the file's pages. Raises
    OSError if the file cannot be opened and ValueError if it is damaged.
    """
    return File(path)
