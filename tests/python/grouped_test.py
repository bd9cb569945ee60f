"""lathe.grouped_matmul against NumPy in float64."""

import lathe
import numpy
import pytest

RNG = numpy.random.default_rng(9)
GROUPS, N, K = 5, 34, 40


def integers(shape):
    """Small integers: sums are exact, so one wrong row or group gives a wrong result."""
    return RNG.integers(-4, 5, shape).astype(numpy.float32)


def experts(n=N):
    return integers((GROUPS, n, K))


def product(rows, weight, group):
    return rows.astype(numpy.float64) @ weight[group].astype(numpy.float64).T


def swapped(weight):
    return numpy.swapaxes(weight, 1, 2)


def test_row_ids_leave_padding_zero():
    a, weight = integers((30, K)), experts()
    ids = RNG.integers(-1, GROUPS, 30).astype(numpy.int32)
    got = lathe.grouped_matmul(a, swapped(weight), ids)
    wanted = numpy.array([product(a[i], weight, g) if g >= 0 else numpy.zeros(N) for i, g in enumerate(ids)])
    assert numpy.array_equal(got, wanted)


def test_offsets_and_counts():
    a, weight = integers((20, K)), experts()
    offsets = numpy.array([0, 3, 3, 11, 12, 18], numpy.int32)
    got = lathe.grouped_matmul(a, swapped(weight), offsets, grouping="offsets")
    for g in range(GROUPS):
        rows = slice(offsets[g], offsets[g + 1])
        assert numpy.array_equal(got[rows], product(a[rows], weight, g))
    assert not got[18:].any()
    batch = integers((GROUPS, 6, K))
    counts = numpy.array([6, 0, 1, 4, 2], numpy.int32)
    got = lathe.grouped_matmul(batch, swapped(weight), counts, grouping="counts")
    for g, count in enumerate(counts):
        assert numpy.array_equal(got[g, :count], product(batch[g, :count], weight, g))
        assert not got[g, count:].any()


@pytest.mark.parametrize("own_rows", [False, True])
def test_indexed_slots_and_their_sum(own_rows):
    tokens, used = 9, 3
    a = integers((tokens, used, K) if own_rows else (tokens, K))
    weight, bias = experts(), integers((GROUPS, N))
    ids = numpy.array([RNG.permutation(GROUPS)[:used] for _ in range(tokens)], numpy.int32)
    got = lathe.grouped_matmul(a, swapped(weight), ids, bias=bias)
    wanted = numpy.array([[product(a[t, s] if own_rows else a[t], weight, g) + bias[g] for s, g in enumerate(row)]
                          for t, row in enumerate(ids)])
    assert numpy.array_equal(got, wanted)
    scale = RNG.integers(1, 9, ids.shape).astype(numpy.float32) / 8
    summed = lathe.grouped_matmul(a, swapped(weight), ids, bias=bias, router_weights=scale)
    assert numpy.array_equal(summed, (wanted * scale[:, :, None]).sum(axis=1))


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_gate(layout):
    a, weight = integers((12, K)) / 8, experts() / 8
    ids = RNG.integers(0, GROUPS, 12).astype(numpy.int32)
    got = lathe.grouped_matmul(a, swapped(weight), ids, gate="silu", gate_layout=layout)
    both = numpy.array([product(a[i], weight, g) for i, g in enumerate(ids)])
    gate, up = (both[:, :N // 2], both[:, N // 2:]) if layout == "halves" else (both[:, ::2], both[:, 1::2])
    assert numpy.allclose(got, gate / (1 + numpy.exp(-gate)) * up, rtol=1e-5, atol=1e-5)


def test_packed_experts():
    a, weight = integers((12, K)), experts(48)
    ids = RNG.integers(0, GROUPS, 12).astype(numpy.int32)
    packed = lathe.pack(swapped(weight))
    wanted = numpy.array([product(a[i], weight, g) for i, g in enumerate(ids)])
    assert numpy.array_equal(lathe.grouped_matmul(a, packed, ids), wanted)


@pytest.mark.parametrize("change, says", [
    (dict(routing=numpy.zeros(30, numpy.int64)), "routing is int64"),
    (dict(routing=numpy.zeros(29, numpy.int32)), "a has 30 rows"),
    (dict(routing=numpy.zeros(30, numpy.int32), grouping="offsets"), "must have 6 elements"),
    (dict(b=numpy.zeros((K, N), numpy.float32)), "b must have three dimensions"),
    (dict(a=numpy.zeros((30, K + 1), numpy.float32)), "a has K = 41 columns"),
    (dict(bias=numpy.zeros(N, numpy.float32)), "must have the shape \\(groups, N\\)"),
    (dict(gate="swish"), "gate is 'swish'"),
    (dict(a=integers((30, K))[::-1]), r"without negative strides. Pass numpy.ascontiguousarray\(a\)"),
    (dict(a=numpy.broadcast_to(integers((1, K)), (30, K))), "a is .* rows that do not overlap"),
    (dict(a=numpy.broadcast_to(integers((1, K)), (GROUPS, 9, K)), routing=numpy.zeros(GROUPS, numpy.int32),
          grouping="counts"), "a is .* rows that do not overlap"),
    (dict(routing=numpy.broadcast_to(numpy.array([2, 0], numpy.int32), (30, 2))), "routing is .* do not overlap"),
    (dict(routing=numpy.zeros((30, 2), numpy.int32), router_weights=numpy.broadcast_to(numpy.float32(1), (30, 2))),
     "router_weights is not contiguous"),
    (dict(routing=numpy.zeros((30, 2), numpy.int32),
          router_weights=numpy.broadcast_to(numpy.ones((1, 2), numpy.float32), (30, 2))),
     "router_weights is .* do not overlap"),
    (dict(router_weights=numpy.zeros((30, 1), numpy.float32)), "router_weights")])
def test_refuses_wrong_arguments(change, says):
    arguments = dict(a=integers((30, K)), b=swapped(experts()), routing=numpy.zeros(30, numpy.int32))
    with pytest.raises(ValueError, match=says):
        lathe.grouped_matmul(**{**arguments, **change})


def test_names_the_routing_value_that_is_out_of_range():
    with pytest.raises(lathe.Error, match=r"routing\[2\] is 7, but there are 5 groups"):
        lathe.grouped_matmul(integers((3, K)), swapped(experts()), numpy.array([0, 1, 7], numpy.int32))


@pytest.mark.parametrize("arguments, shape", [
    (dict(a=(0, K), routing=(0, 2)), (0, 2, N)),
    (dict(a=(0, K), routing=(0, 2), router_weights=(0, 2)), (0, N)),
    (dict(a=(0, K), routing=(0,)), (0, N)),
    (dict(a=(GROUPS, 0, K), routing=(GROUPS,), grouping="counts"), (GROUPS, 0, N)),
    (dict(a=(6, K), b=(GROUPS, K, 0), routing=(6,), bias=(GROUPS, 0)), (6, 0)),
    (dict(a=(6, K), b=(0, K, N), routing=(6,), bias=(0, N)), (6, N))])
def test_arrays_without_elements(arguments, shape):
    """NumPy gives them strides of 0."""
    arrays = {name: numpy.zeros(size, numpy.int32 if name == "routing" else numpy.float32)
              for name, size in arguments.items() if isinstance(size, tuple)}
    got = lathe.grouped_matmul(**{"b": swapped(experts()), **arguments, **arrays})
    assert got.shape == shape and not got.any()
