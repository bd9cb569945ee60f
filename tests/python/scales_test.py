"""Operands in fp8 and fp4 with block scales against NumPy in float64."""

import lathe
import ml_dtypes
import numpy
import pytest

RNG = numpy.random.default_rng(11)

# name: dtype of elements, dtype of scales, elements per scale
FORMATS = {"f8_128": ("float8_e4m3fn", "float32", 128), "f8_128_e8m0": ("float8_e4m3fn", "float8_e8m0fnu", 128),
           "mxf8": ("float8_e4m3fn", "float8_e8m0fnu", 32), "mxf8_e5m2": ("float8_e5m2", "float8_e8m0fnu", 32),
           "mxf4": ("float4_e2m1fn", "float8_e8m0fnu", 32), "nvf4": ("float4_e2m1fn", "float8_e4m3fn", 16)}


def dtype(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def random_scales(shape, name):
    """Scales around 1."""
    if name == "float8_e8m0fnu":
        return RNG.integers(124, 131, shape).astype(numpy.uint8).view(dtype(name))
    return RNG.uniform(0.25, 2, shape).astype(dtype(name))


class Operand:
    """Lines of k elements in blocks. `tall`: 128 lines share a scale."""

    def __init__(self, format, shape, tall=False):
        element, scale, block = FORMATS[format]
        *batch, lines, k = shape
        self.format, self.block = format, block
        self.elements = RNG.uniform(-4, 4, shape).astype(dtype(element))
        self.scales = random_scales((*batch, -(-lines // 128) if tall else lines, k // block), scale)
        wide = numpy.repeat(self.scales.astype(numpy.float64), block, axis=-1)
        if tall:
            wide = numpy.repeat(wide, 128, axis=-2)[..., :lines, :]
        self.values = self.elements.astype(numpy.float64) * wide
        self.bytes = self.elements
        if element == "float4_e2m1fn":
            codes = self.elements.view(numpy.uint8)
            self.bytes = codes[..., 0::2] | codes[..., 1::2] << 4


def is_near(got, wanted, a, b):
    """Whether the error is small beside the sum of the products' magnitudes."""
    magnitude = numpy.abs(a) @ numpy.swapaxes(numpy.abs(b), -1, -2)
    return (numpy.abs(got.astype(numpy.float64) - wanted) <= 1e-5 * magnitude).all()


def product(a, b):
    return a @ numpy.swapaxes(b, -1, -2)


@pytest.mark.parametrize("m", [1, 5, 33])
@pytest.mark.parametrize("format", FORMATS)
def test_matmul(format, m):
    a, b = Operand(format, (m, 256)), Operand(format, (160, 256), tall=format.startswith("f8"))
    got = lathe.matmul(a.bytes, b.bytes.T, a_scale=lathe.Scales(a.scales, format),
                       b_scale=lathe.Scales(b.scales, format))
    assert got.dtype == numpy.float32 and got.shape == (m, 160)
    assert is_near(got, product(a.values, b.values), a.values, b.values)
    # Bytes without a dtype of their own, and a result in the caller's memory.
    raw = {"a_scale": lathe.Scales(a.scales if format == "f8_128" else a.scales.view(numpy.uint8), format),
           "b_scale": lathe.Scales(b.scales, format)}
    out = numpy.zeros((m, 160), numpy.float32)
    lathe.matmul(a.bytes.view(numpy.uint8), b.bytes.view(numpy.uint8).T, out=out, **raw)
    assert numpy.array_equal(out, got)


@pytest.mark.parametrize("format", FORMATS)
def test_matmul_by_a_scaled_weight_alone(format):
    a = RNG.standard_normal((7, 256), numpy.float32)
    b = Operand(format, (48, 256))
    got = lathe.matmul(a, b.bytes.T, b_scale=lathe.Scales(b.scales, format))
    assert is_near(got, product(a.astype(numpy.float64), b.values), a, b.values)
    half = a.astype(ml_dtypes.bfloat16)
    got = lathe.matmul(half, b.bytes.T, b_scale=lathe.Scales(b.scales, format))
    assert got.dtype == ml_dtypes.bfloat16
    wanted = product(half.astype(numpy.float64), b.values)
    assert numpy.allclose(got.astype(numpy.float64), wanted, rtol=2**-7, atol=1e-2)


def test_batches_have_scales_of_their_own_or_share_them():
    a, b = Operand("mxf8", (3, 5, 64)), Operand("mxf8", (3, 24, 64))
    b_scale = lathe.Scales(b.scales, "mxf8")
    got = lathe.matmul(a.bytes, numpy.swapaxes(b.bytes, 1, 2), a_scale=lathe.Scales(a.scales, "mxf8"), b_scale=b_scale)
    assert is_near(got, product(a.values, b.values), a.values, b.values)
    shared = a.elements.astype(numpy.float64) * numpy.repeat(a.scales[0].astype(numpy.float64), 32, axis=-1)
    got = lathe.matmul(a.bytes, numpy.swapaxes(b.bytes, 1, 2), a_scale=lathe.Scales(a.scales[0], "mxf8"),
                       b_scale=b_scale)
    assert is_near(got, product(shared, b.values), shared, b.values)


def columns_first(array):
    """The same array with its lines side by side, as DeepGEMM and _scaled_mm have it; lines are padded to 4."""
    lines = -(-array.shape[0] // 4) * 4
    padded = numpy.zeros((array.shape[1], lines), array.dtype)
    padded[:, :array.shape[0]] = array.T
    return padded.T[:array.shape[0]]


def words_of(scales):
    """Four blocks in an int32, its lowest byte first, the words of all lines side by side."""
    blocks = -(-scales.shape[1] // 4) * 4
    padded = numpy.zeros((scales.shape[0], blocks), numpy.uint8)
    padded[:, :scales.shape[1]] = scales.view(numpy.uint8)
    return columns_first(padded.view("<i4"))


def tiles_of(scales):
    """Tiles of 128 lines by 4 blocks: line l and block b of a tile are at l % 32 * 16 + l // 32 * 4 + b."""
    lines, blocks = (-(-n // of) * of for n, of in zip(scales.shape, (128, 4)))
    padded = numpy.zeros((lines, blocks), numpy.uint8)
    padded[:scales.shape[0], :scales.shape[1]] = scales.view(numpy.uint8)
    return padded.reshape(lines // 128, 4, 32, blocks // 4, 4).transpose(0, 3, 2, 1, 4).reshape(-1).copy()


@pytest.mark.parametrize("format, arrange, tiled", [
    ("f8_128", columns_first, False), ("f8_128_e8m0", columns_first, False), ("f8_128_e8m0", words_of, False),
    ("mxf8", words_of, False), ("mxf8", tiles_of, True), ("mxf4", columns_first, False), ("nvf4", tiles_of, True)])
def test_layouts(format, arrange, tiled):
    a, b = Operand(format, (130, 384)), Operand(format, (40, 384))
    plain = {"a_scale": lathe.Scales(a.scales, format), "b_scale": lathe.Scales(b.scales, format)}
    other = {"a_scale": lathe.Scales(arrange(a.scales), format, tiled=tiled),
             "b_scale": lathe.Scales(arrange(b.scales), format, tiled=tiled)}
    wanted = lathe.matmul(a.bytes, b.bytes.T, **plain)
    assert is_near(wanted, product(a.values, b.values), a.values, b.values)
    assert numpy.array_equal(lathe.matmul(a.bytes, b.bytes.T, **other), wanted)


def test_global_scale():
    a, b = Operand("nvf4", (4, 64)), Operand("nvf4", (24, 64))
    scales = {"a_scale": lathe.Scales(a.scales, "nvf4", global_scale=0.5),
              "b_scale": lathe.Scales(b.scales, "nvf4", global_scale=numpy.array([0.25], numpy.float32))}
    got = lathe.matmul(a.bytes, b.bytes.T, **scales)
    assert is_near(got, product(a.values, b.values) / 8, a.values, b.values / 8)


@pytest.mark.parametrize("format", FORMATS)
def test_experts(format):
    groups, used = 4, 2
    a, b = Operand(format, (9, 256)), Operand(format, (groups, 144, 256), tall=format.startswith("f8"))
    weight = numpy.swapaxes(b.bytes, 1, 2)
    factors = RNG.uniform(0.5, 2, groups).astype(numpy.float32)
    b_scale = lathe.Scales(b.scales, format, global_scale=factors)
    a_scale = lathe.Scales(a.scales, format)
    values = b.values * factors[:, None, None]
    ids = RNG.integers(-1, groups, 9).astype(numpy.int32)
    got = lathe.grouped_matmul(a.bytes, weight, ids, a_scale=a_scale, b_scale=b_scale)
    assert got.dtype == numpy.float32
    for row, group in enumerate(ids):
        if group < 0:
            assert not got[row].any()
        else:
            values_of_row = a.values[row:row + 1]
            assert is_near(got[row:row + 1], values_of_row @ values[group].T, values_of_row, values[group])
    slots = numpy.array([RNG.permutation(groups)[:used] for _ in range(9)], numpy.int32)
    own = Operand(format, (9, used, 256))
    for operand in (a, own):
        got = lathe.grouped_matmul(operand.bytes, weight, slots, b_scale=b_scale,
                                   a_scale=lathe.Scales(operand.scales, format))
        for t in range(9):
            for s in range(used):
                row = operand.values[t, s][None] if operand is own else operand.values[t][None]
                assert is_near(got[t, s], row @ values[slots[t, s]].T, row, values[slots[t, s]])


@pytest.mark.parametrize("scales, says", [
    (lambda s: lathe.Scales(s[:, :1], "mxf8"), "needs bytes of 24 by 2"),
    (lambda s: lathe.Scales(s[:5], "mxf8"), "needs bytes of 24 by 2"),
    (lambda s: lathe.Scales(s, "f8_128"), "dtype"),
    (lambda s: lathe.Scales(s, "mxf8_e5m2"), "b has dtype float8_e4m3fn, but format 'mxf8_e5m2' has float8_e5m2"),
    (lambda s: lathe.Scales(s, "mxf8", tiled=True), "its tiles have 512"),
    (lambda s: lathe.Scales(s, "mxf8", global_scale=[1, 2]), "has 2 elements, but must have 1"),
    (lambda s: lathe.Scales(s, "fp8"), "format is 'fp8', but must be one of 'f8_128'"),
    (lambda s: lathe.Scales(numpy.ones((24, 2), numpy.float32), "f8_128", tiled=True), "float32 are not tiled")])
def test_refuses_wrong_scales(scales, says):
    b = Operand("mxf8", (24, 64))
    with pytest.raises(ValueError, match=says):
        lathe.matmul(numpy.ones((2, 64), numpy.float32), b.bytes.T, b_scale=scales(b.scales))


def test_refuses_other_objects():
    a, b = numpy.ones((2, 64), numpy.float32), Operand("mxf8", (24, 64))
    with pytest.raises(TypeError, match="b_scale must be a lathe.Scales"):
        lathe.matmul(a, b.bytes.T, b_scale=b.scales)
    with pytest.raises(ValueError, match="b has dtype float8_e4m3fn"):
        lathe.matmul(a, b.bytes.T)
    unpacked = RNG.uniform(-4, 4, (24, 64)).astype(ml_dtypes.float4_e2m1fn)
    with pytest.raises(ValueError, match="has float4_e2m1fn_x2, two in a byte"):
        lathe.matmul(a, unpacked.T, b_scale=lathe.Scales(numpy.ones((24, 4), numpy.uint8), "mxf4"))
    with pytest.raises(ValueError, match="b_scale is for an array b"):
        lathe.matmul(a, lathe.pack(numpy.ones((64, 24), numpy.float32)), b_scale=lathe.Scales(b.scales, "mxf8"))


@pytest.mark.parametrize("format", FORMATS)
def test_warm_up_covers_later_products(format):
    a, b = Operand(format, (6, 128)), Operand(format, (40 + 8 * list(FORMATS).index(format), 128))
    x, scale = RNG.standard_normal((6, 128), numpy.float32), lathe.Scales(b.scales, format)
    plain = RNG.standard_normal((128, 24), numpy.float32)
    lathe.warmup({"scaled": b.bytes.T, "plain": plain}, m=6, b_scale={"scaled": scale})
    lathe.warmup(b.bytes.T, m=6, a_dtype="bfloat16", out_dtype="float32", b_scale=scale)
    lathe.set_miss_policy("error")
    try:
        got = lathe.matmul(x, b.bytes.T, b_scale=scale)
        of_both = lathe.matmul(a.bytes, b.bytes.T, a_scale=lathe.Scales(a.scales, format), b_scale=scale)
        out = numpy.empty((6, b.bytes.shape[0]), numpy.float32)
        lathe.matmul(x.astype(ml_dtypes.bfloat16), b.bytes.T, out=out, b_scale=scale)
        lathe.matmul(x, plain)
        with pytest.raises(lathe.Error):
            lathe.matmul(x, b.bytes.T, b_scale=scale, activation="relu")
    finally:
        lathe.set_miss_policy("block")
    assert is_near(got, product(x.astype(numpy.float64), b.values), x, b.values)
    assert is_near(of_both, product(a.values, b.values), a.values, b.values)


def test_warm_up_refuses_scales_of_other_weights():
    b = Operand("mxf8", (24, 64))
    scale = lathe.Scales(b.scales, "mxf8")
    with pytest.raises(ValueError, match="b_scale has scales of 'y', which is not one of the weights"):
        lathe.warmup({"x": b.bytes.T}, m=1, b_scale={"y": scale})
    with pytest.raises(ValueError, match="matmul_argmax has no scales"):
        lathe.warmup(b.bytes.T, m=1, b_scale=scale, op="matmul_argmax")
    with pytest.raises(TypeError, match="b_scale must be a lathe.Scales"):
        lathe.warmup([numpy.ones((64, 24), numpy.float32)], m=1, b_scale=[b.scales])


def test_explain_shows_the_class():
    a, b = Operand("mxf4", (3, 64)), Operand("mxf4", (24, 64))
    text = str(lathe.explain(a.bytes, b.bytes.T, a_scale=lathe.Scales(a.scales, "mxf4"),
                             b_scale=lathe.Scales(b.scales, "mxf4")))
    assert "m=3 n=24 k=64" in text
