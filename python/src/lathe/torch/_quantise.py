"""Weights in GGUF's block formats, as NumPy bytes: q8_0, and q4_k by ggml's search."""

import numpy
import torch

# Elements of one piece: its temporaries stay in the cache.
_PIECE = 1 << 15


def _pieces(weight, block):
    """Float32 blocks of some rows at a time."""
    rows = max(1, _PIECE // weight.shape[1])
    for first in range(0, weight.shape[0], rows):
        yield weight[first:first + rows].to(torch.float32).contiguous().numpy().reshape(-1, block)


def _bytes(values, dtype):
    return numpy.ascontiguousarray(values.astype(dtype)).view(numpy.uint8)


def q8_0(weight):
    """Blocks of 32: a float16 scale (largest magnitude / 127), and 32 int8."""
    parts = []
    for blocks in _pieces(weight, 32):
        scale = numpy.abs(blocks).max(axis=1, keepdims=True) / numpy.float32(127)
        values = blocks * numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale != 0)
        whole = numpy.floor(numpy.abs(values))
        whole += numpy.floor(2 * (numpy.abs(values) - whole))  # half away from zero, as ggml rounds
        parts.append(numpy.hstack([_bytes(scale, numpy.float16), _bytes(numpy.copysign(whole, values), numpy.int8)]))
    return numpy.concatenate(parts).reshape(-1)


def _search(x, steps=21, levels=15):
    """For each row x, scale and minimum (both >= 0) with x about scale * q - minimum, q in [0, levels].

    ggml's make_qkx2_quants: tries `steps` scales, fits a line by weighted least squares, keeps the best.
    """
    def total(values):
        return values.sum(axis=1, keepdims=True)

    weight = numpy.sqrt(total(x * x) / numpy.float32(x.shape[1])) + numpy.abs(x)
    low = numpy.minimum(x.min(axis=1, keepdims=True), 0)
    span = x.max(axis=1, keepdims=True) - low
    flat = span == 0
    span[flat] = 1
    above = x - low
    sum_w, sum_x = total(weight), total(weight * x)

    def error(q, scale, minimum):
        return total(weight * (scale * q + minimum - x)**2)

    scale, minimum = span / levels, low
    best = error(numpy.clip(numpy.rint(above / scale), 0, levels), scale, minimum)
    for step in range(steps):
        q = numpy.clip(numpy.rint(above * (numpy.float32(step * 0.1 - 1 + levels) / span)), 0, levels)
        wq = weight * q
        sum_q, sum_qq, sum_qx = total(wq), total(wq * q), total(wq * x)
        determinant = sum_w * sum_qq - sum_q * sum_q
        usable = determinant > 0
        safe = numpy.where(usable, determinant, 1)
        fit, offset = (sum_w * sum_qx - sum_x * sum_q) / safe, (sum_qq * sum_x - sum_q * sum_qx) / safe
        positive = usable & (offset > 0)
        fit[positive] = sum_qx[positive] / sum_qq[positive]
        offset[positive] = 0
        found = error(q, fit, offset)
        better = usable & (found < best)
        best = numpy.where(better, found, best)
        scale, minimum = numpy.where(better, fit, scale), numpy.where(better, offset, minimum)
    return numpy.where(flat, 0, scale), -minimum


def q4_k(weight):
    """Blocks of 256: two float16 factors, 8 pairs of 6-bit scales and minimums, 256 values of 4 bits."""
    parts = []
    for blocks in _pieces(weight, 256):
        count = blocks.shape[0]
        x = blocks.reshape(-1, 32)
        integers, factors, used = [], [], []
        for values in _search(x):
            values = values.reshape(count, 8)
            largest = values.max(axis=1, keepdims=True)
            inverse = numpy.divide(63, largest, out=numpy.zeros_like(largest), where=largest > 0)
            integers.append(numpy.clip(numpy.rint(inverse * values), 0, 63).astype(numpy.uint8))
            factors.append((largest / 63).astype(numpy.float16))
            used.append((factors[-1].astype(numpy.float32) * integers[-1]).reshape(-1, 1))
        q = numpy.divide(x + used[1], used[0], out=numpy.zeros_like(x), where=used[0] != 0)
        q = numpy.clip(numpy.rint(q), 0, 15).astype(numpy.uint8).reshape(count, 4, 2, 32)
        s, m = integers
        parts.append(numpy.hstack([factors[0].view(numpy.uint8), factors[1].view(numpy.uint8),
                                   s[:, :4] | (s[:, 4:] >> 4) << 6, m[:, :4] | (m[:, 4:] >> 4) << 6,
                                   (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4,
                                   (q[:, :, 0] | q[:, :, 1] << 4).reshape(count, 128)]))
    return numpy.concatenate(parts).reshape(-1)
