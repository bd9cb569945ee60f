"""Packed weights and weights of GGUF files."""

import gguf
import lathe
import numpy
import pytest

RNG = numpy.random.default_rng(6)


def random(shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n, k", [(1, 1), (48, 96), (33, 7)])
def test_packed_weight_gives_the_product(dtype, n, k):
    weight = random((n, k), dtype)
    packed = lathe.pack(weight.T)
    assert (packed.N, packed.K, packed.shape, packed.dtype) == (n, k, (n, k), dtype)
    kept = weight.astype(numpy.float64)
    weight[:] = 0  # the packed copy does not depend on it
    for m in (1, 5):
        a = random((m, k), dtype)
        result = lathe.matmul(a, packed, out=numpy.empty((m, n), numpy.float32))
        numpy.testing.assert_allclose(result, a.astype(numpy.float64) @ kept.T, rtol=1e-4, atol=1e-4)


def test_packed_int8_and_batches():
    weight = RNG.integers(-128, 128, (20, 40), numpy.int8)
    a = RNG.integers(-128, 128, (3, 40), numpy.int8)
    assert (lathe.matmul(a, lathe.pack(weight.T)) == a.astype(int) @ weight.T.astype(int)).all()
    batch = random((3, 16, 24))
    a = random((3, 2, 16))
    numpy.testing.assert_allclose(lathe.matmul(a, lathe.pack(batch)), a @ batch, rtol=1e-4, atol=1e-4)


def test_packed_empty_weight():
    assert lathe.matmul(random((2, 0)), lathe.pack(random((0, 4)))).tolist() == [[0] * 4] * 2
    assert lathe.matmul(random((2, 3)), lathe.pack(random((3, 0)))).shape == (2, 0)


def test_packing_refuses_vectors_and_packed_weights():
    with pytest.raises(ValueError, match="two dimensions"):
        lathe.pack(random(4))
    with pytest.raises(ValueError, match="packed already"):
        lathe.pack(lathe.pack(random((4, 4))))
    with pytest.raises(lathe.Error) as raised:
        lathe.pack(random((4, 4)), a_dtype="int8")
    assert raised.value.status in (lathe.Status.INVALID_ARGUMENT, lathe.Status.UNSUPPORTED)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A file with one weight per format that gguf can write, and a norm; and its values by gguf's dequantiser."""
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    writer = gguf.GGUFWriter(path, "test")
    writer.add_string("general.name", "small")
    writer.add_array("tokens", ["a", "bc"])
    writer.add_array("scores", [0.5, 1.5])
    values = {}
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        kind = gguf.GGMLQuantizationType[name]
        data = gguf.quants.quantize(random((24, 64)), kind)
        writer.add_tensor(name, data, raw_dtype=kind)
        values[name] = gguf.quants.dequantize(data, kind)
    for name in ("Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ4_NL", "MXFP4"):  # gguf reads but does not write them
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        data = RNG.integers(0, 256, (24, 512 // elements, size), numpy.uint8)
        half = numpy.frombuffer(numpy.float16(0.01).tobytes(), numpy.uint8)
        if name in ("Q4_K", "Q5_K"):
            data[..., 0:4] = numpy.tile(half, 2)
        elif name == "Q6_K":
            data[..., -2:] = half
        elif name == "MXFP4":
            data[..., 0] = 120
        else:
            data[..., 0:2] = half
        data = data.reshape(24, -1)
        writer.add_tensor(name, data, raw_dtype=kind)
        values[name] = gguf.quants.dequantize(data, kind)
    values["half"] = random((8, 64), "float16")
    values["norm"] = random(64)
    writer.add_tensor("half", values["half"])
    writer.add_tensor("norm", values["norm"])
    writer.add_tensor("Q2_K", numpy.zeros((4, 84), numpy.uint8), raw_dtype=gguf.GGMLQuantizationType.Q2_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, values


FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ4_NL", "MXFP4"]


@pytest.mark.parametrize("name", FORMATS)
def test_gguf_weight_gives_the_product_of_the_dequantised_one(model, name):
    path, values = model
    weight = lathe.gguf.load(path)[name]
    assert (weight.dtype, weight.shape) == (name.lower(), values[name].shape)
    assert weight.nbytes == len(weight.data) and weight.data.readonly
    a = random((3, weight.K))
    expected = a.astype(numpy.float64) @ values[name].astype(numpy.float64).T
    scale = numpy.abs(a) @ numpy.abs(values[name]).T + 1e-6
    assert (numpy.abs(lathe.matmul(a, weight) - expected) <= 1e-5 * scale).all()
    # Rounding a to bytes is an error of at most half a 127th of the largest magnitude.
    rounded = numpy.abs(a).max() / 127 * numpy.abs(values[name]).sum(axis=1)
    assert (numpy.abs(lathe.matmul(a, weight, math="int8") - expected) <= rounded + 1e-3 * scale).all()
    assert (numpy.abs(lathe.matmul(a, lathe.pack(weight)) - expected) <= rounded + 1e-3 * scale).all()


@pytest.mark.parametrize("name", FORMATS)
def test_gguf_weight_is_an_output_layer(model, name):
    path, values = model
    weight = lathe.gguf.load(path)[name]
    a = random((3, weight.K))
    logits = a.astype(numpy.float64) @ values[name].astype(numpy.float64).T
    # Logits that differ by less than the rounding of a may change places.
    error = numpy.abs(a).max() / 127 * numpy.abs(values[name]).sum(axis=1)
    for math, bound in ((None, 1e-3 * error), ("int8", error)):
        index, value = lathe.matmul_argmax(a, weight, values=True, math=math)
        for i in range(3):
            assert (logits[i] - bound <= logits[i, index[i]] + bound[index[i]]).all()
            assert abs(value[i] - logits[i, index[i]]) <= bound[index[i]]


@pytest.mark.parametrize("name", ["F32", "Q8_0", "Q4_0"])
def test_packed_weight_is_an_output_layer(name):
    kind = gguf.GGMLQuantizationType[name]
    data = gguf.quants.quantize(random((80, 64)), kind)
    values = gguf.quants.dequantize(data, kind)
    weight = values.T if name == "F32" else lathe.QuantisedWeight(data.tobytes(), name.lower(), (80, 64))
    packed = lathe.pack(weight)
    a = random((3, 64))
    logits = a.astype(numpy.float64) @ values.astype(numpy.float64).T
    error = (0 if name == "F32" else numpy.abs(a).max() / 127) * numpy.abs(values).sum(axis=1) + 1e-3
    index, value = lathe.matmul_argmax(a, packed, values=True)
    for i in range(3):
        assert (logits[i] - error <= logits[i, index[i]] + error[index[i]]).all()
        assert abs(value[i] - logits[i, index[i]]) <= error[index[i]]
    report = lathe.warmup(packed, m=2, op="matmul_argmax", a_dtype="float32")
    assert report["classes"] == 2


def test_gguf_file_is_a_mapping_with_metadata(model):
    path, values = model
    file = lathe.gguf.load(path)
    assert set(file) == set(values) | {"Q2_K"} and len(file) == len(values) + 1
    assert file.metadata["general.name"] == "small"
    assert file.metadata["tokens"] == ["a", "bc"] and file.metadata["scores"] == [0.5, 1.5]
    assert (file.numpy("norm") == values["norm"]).all()
    a = random((2, 64), "float16")
    numpy.testing.assert_allclose(lathe.matmul(a, file["half"]).astype(float),
                                  a.astype(float) @ values["half"].astype(float).T, rtol=2e-3, atol=2e-2)
    with pytest.raises(ValueError, match="q2_k"):
        lathe.matmul(random((1, 256)), file["Q2_K"])
    with pytest.raises(ValueError, match="two dimensions"):
        lathe.matmul(random((1, 64)), file["norm"])
    with pytest.raises(ValueError, match="NumPy"):
        file.numpy("Q4_0")


def test_weight_outlives_its_file_object(model):
    path, values = model
    weight = lathe.gguf.load(path)["Q8_0"]
    assert lathe.matmul(random((1, 64)), weight).shape == (1, 24)


def test_damaged_gguf_files_raise(model, tmp_path):
    whole = model[0].read_bytes()
    bad = tmp_path / "bad.gguf"
    for content in (b"", b"GGUF", b"GGML" + whole[4:], whole[:40], whole[:-2000], b"GGUF\x09" + whole[5:],
                    whole[:8] + b"\xff" * 8 + whole[16:], whole[:16] + b"\xff" * 8 + whole[24:]):
        bad.write_bytes(content)
        with pytest.raises(ValueError):
            lathe.gguf.load(bad)
    # A flipped byte in the header is refused or harmless.
    for at in range(0, 600, 3):
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1:])
        try:
            file = lathe.gguf.load(bad)
            for name in file:
                file[name]
        except ValueError:
            pass


def test_quantised_weight_checks_its_buffer():
    assert lathe.QuantisedWeight(bytes(34 * 4), "q8_0", (2, 64)).K == 64
    for size, shape in ((34 * 4 - 1, (2, 64)), (34 * 4, (2, 60)), (34, (-1, 32)), (0, (1 << 62, 32))):
        with pytest.raises(ValueError):
            lathe.QuantisedWeight(bytes(size), "q8_0", shape)
