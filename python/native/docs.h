// The signatures and docstrings of the functions that lathe/__init__.py takes from the module as they are.
#pragma once

namespace lathe_python {

inline constexpr const char* kMatmulDoc = R"(activation(alpha * a @ b + beta * out + bias) + residual

a          (K,), (M, K) or (batch, M, K)
b          (K,), (K, N), (batch, K, N), a PackedWeight or a QuantisedWeight. Pass a weight of shape (N, K) as weight.T
out        where the result goes: rows contiguous, of float32, float16 or bfloat16 (of int8 products also int32)
bias       (N,)
activation "relu", "gelu", "gelu_tanh" or "silu"
residual   an array of the result's shape
beta       multiplies what out has before the call; 0 does not read it
math       "strict", "tf32", "int8" or "bf16": arithmetic that may be less precise than float32
determinism "fast", "run_to_run" or "batch_invariant"
a_scale, b_scale  the Scales of an a or b in fp8 or fp4

Returns out, or a new array of a's dtype (int32 if a is int8, float32 if it has scales): of PyTorch if a is a tensor,
else of NumPy. As in numpy.matmul, the dimension of a vector is missing in the result.

Arguments are float32, float16, bfloat16 (ml_dtypes, or through DLPack) or int8 arrays with the buffer protocol or
DLPack, all on one device. They are read without a copy. Sums are in float32, of int8 in int32.

Arrays on a GPU are computed there, in the current stream of a's library, and the call returns when the work is in the
stream. If the library has no current stream (others than PyTorch and CuPy), the work runs in the default stream, and
the call returns when it is done. A new result is of a's library.

Raises ValueError for shapes, dtypes, strides and devices that Lathe cannot take, TypeError for objects that are no
arrays, and lathe.Error if the library refuses the request. The first call with a shape compiles a kernel or loads it
from the cache directory. The GIL is released during the call, and any number of threads may call at once. No other
thread may write the arrays meanwhile.)";
inline constexpr const char* kMatmulSignature =
    "def matmul(a: typing.Any, b: typing.Any, *, out: typing.Any = None, bias: typing.Any = None, "
    "activation: str | None = None, residual: typing.Any = None, alpha: float = 1.0, beta: float = 0.0, "
    "math: str | None = None, determinism: str | None = None, a_scale: Scales | None = None, "
    "b_scale: Scales | None = None) -> typing.Any";

inline constexpr const char* kScalesDoc = R"(Scales(array, format, *, tiled=False, global_scale=None)

The scales of an a or b in fp8 or fp4, one for a block of elements along K.

array   (lines, blocks): a line is a row of a, or a column of b (an output). Of a batch, and of experts, with one more
        dimension, which stands where it does in a; of b it is the first. Either dimension may be the contiguous one
format  format         elements          scales           elements per scale
        "f8_128"       float8_e4m3fn     float32          128; of b also 128 by 128 (lines / 128 rows, rounded up)
        "f8_128_e8m0"  float8_e4m3fn     e8m0             the same
        "mxf8"         float8_e4m3fn     e8m0             32
        "mxf8_e5m2"    float8_e5m2       e8m0             32
        "mxf4"         float4_e2m1fn_x2  e8m0             32
        "nvf4"         float4_e2m1fn_x2  float8_e4m3fn    16
        Elements and scales of one byte may have any dtype of one byte (uint8), or that of ml_dtypes and PyTorch.
        fp4 has two elements in a byte, the first in the lower half, so such an a is (M, K / 2) and b (K / 2, N).
        e8m0 scales may also be int32, four blocks in a word, the first in its lowest byte (DeepGEMM)
tiled   array has tiles of 128 lines by 4 blocks, as cuBLASLt and PyTorch's _scaled_mm take them for "mxf8" and "nvf4"
global_scale  a number that multiplies all scales; of experts an array with one for each

The array is kept and read at each call. global_scale needs CPU memory. Calls raise ValueError if it does not fit.)";

inline constexpr const char* kGroupedMatmulDoc =
    R"(The rows of each group times the weight of that group: the experts of a mixture.

a         (M, K); with grouping "indexed" (tokens, K) or (tokens, used, K); with "counts" (groups, M, K)
b         (groups, K, N), or a PackedWeight or QuantisedWeight with a batch. Pass a weight of shape (groups, N, K) as
          numpy.swapaxes(weight, 1, 2)
routing   int32. "row_ids": (M,), the group of each row, -1 for none. "indexed": (tokens, used), the groups of each
          token. "offsets": (groups + 1,), the first row of each group. "counts": (groups,), rows per group
grouping  the meaning of routing. None: "indexed" if routing has two dimensions, else "row_ids"
router_weights  float32, the shape of routing: sum the results of a token with these weights
gate      "silu", "gelu", "gelu_tanh", "relu" or "clamped" (gpt-oss): b has gate and up columns, the result N / 2
gate_layout  "halves" (None) or "interleaved"
bias      (groups, N)
a_scale, b_scale  the Scales of an a or b in fp8 or fp4

Returns a new array of a's dtype (float32 if it has scales): (M, N), (tokens, used, N), (tokens, N) with
router_weights, or (groups, M, N). Rows without a group are 0. In CPU memory only. The rest is as for matmul.)";
inline constexpr const char* kGroupedMatmulSignature =
    "def grouped_matmul(a: typing.Any, b: typing.Any, routing: typing.Any, *, grouping: str | None = None, "
    "router_weights: typing.Any = None, gate: str | None = None, gate_layout: str | None = None, "
    "bias: typing.Any = None, activation: str | None = None, alpha: float = 1.0, math: str | None = None, "
    "determinism: str | None = None, a_scale: Scales | None = None, b_scale: Scales | None = None) -> "
    "typing.Any";

inline constexpr const char* kArgmaxDoc = R"(The column of each row's maximum, as int64.

x       (N,) or (M, N), rows contiguous; float32, float16 or bfloat16
values  True: return (indices, maxima), the maxima as float32

Returns an array of shape () or (M,): of NumPy, on a GPU of x's library. The lowest index wins a tie, and the first NaN
counts as the maximum. N must be at least 1 unless M is 0. Errors and threads: as for matmul.)";
inline constexpr const char* kArgmaxSignature =
    "def argmax(x: typing.Any, *, values: bool = False) -> typing.Any";

inline constexpr const char* kMatmulArgmaxDoc =
    R"(argmax(a @ b + bias) of each row, without storing the product: the output layer of greedy decoding.

a             (K,) or (M, K)
b             (K, N), a QuantisedWeight or a PackedWeight. Pass a weight of shape (N, K) as weight.T
bias          (N,)
logits_dtype  "float32", "float16" or "bfloat16": sums are rounded to it before they are compared. None: a's dtype
values        True: return (indices, maxima), the maxima as float32

Returns an int64 array of shape () or (M,): of NumPy, on a GPU of a's library. Arrays are float32, float16 or bfloat16.
Errors and threads: as for matmul.)";
inline constexpr const char* kMatmulArgmaxSignature =
    "def matmul_argmax(a: typing.Any, b: typing.Any, *, bias: typing.Any = None, logits_dtype: typing.Any = "
    "None, "
    "values: bool = False, math: str | None = None, determinism: str | None = None) -> typing.Any";

inline constexpr const char* kPackDoc = R"(A copy of a weight in the order in which the kernels read it.

weight   what matmul takes as b: (K, N), (batch, K, N) or a QuantisedWeight. Pass a weight of shape (N, K) as weight.T
a_dtype  the dtype of the a that it will be multiplied by. None: the weight's dtype, float32 for block formats
math     as for matmul, which uses it unless the call names another. None: "int8" for block formats, else "strict"

Returns a PackedWeight, which keeps nothing of `weight`. docs/quantised-weights.md says when packing pays. Raises
ValueError and lathe.Error as matmul does. Weights on a GPU are not packed: lathe.Error, Status.UNSUPPORTED.)";
inline constexpr const char* kPackSignature =
    "def pack(weight: typing.Any, *, a_dtype: typing.Any = None, math: str | None = None) -> PackedWeight";

inline constexpr const char* kSetMissPolicyDoc =
    R"(What a call does whose kernel is not loaded yet, from now on and in every thread.

policy  "block": compile it (the default). "fallback": run a generic kernel and compile in the background. "error":
        raise lathe.Error with Status.MISS, so that nothing compiles after a warm-up)";
inline constexpr const char* kSetMissPolicySignature = "def set_miss_policy(policy: str) -> None";

inline constexpr const char* kStatisticsDoc =
    "The counters of this process since its device was opened: {\"compiles\": ..., \"disk_hits\": ..., ...}. "
    "lathe_statistics in include/lathe/lathe.h explains each.";
inline constexpr const char* kStatisticsSignature = "def statistics() -> dict[str, int | float]";

}  // namespace lathe_python
