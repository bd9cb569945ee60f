#include "runtime/cpu/calibrate/rate_loops.h"

// The loops are assembly, so that every compiler and every level of optimisation runs the same instructions. They
// start with finite values that stay finite, because some processors are slow with subnormals.
namespace lathe {
namespace {

// Calls X once per accumulator. Twelve hide a latency of six cycles on two units. Two registers hold the operands.
#define LATHE_TWELVE(X) X("0") X("1") X("2") X("3") X("4") X("5") X("6") X("7") X("8") X("9") X("10") X("11")
constexpr double kAccumulators = 12;
alignas(64) constexpr float kOperand = 1e-3f;

#if defined(__x86_64__)
#define LATHE_CLEAR(n) "vpxor %%xmm" n ", %%xmm" n ", %%xmm" n "\n\t"
#define LATHE_VECTOR_CLOBBERS                                                                                \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm13", \
      "xmm14", "xmm15", "cc", "memory"
// A loop over `STEP`, an instruction for accumulator n with operands in registers 14 and 15 of width R ("ymm").
#define LATHE_X86_LOOP(name, R, STEP)                             \
  void name(int64_t repeats) {                                    \
    asm volatile(LATHE_TWELVE(LATHE_CLEAR)                      \
                 "vbroadcastss %1, %%" R "14\n\t"               \
                 "vbroadcastss %1, %%" R "15\n\t"               \
                 ".p2align 5\n"                                 \
                 "1:\n\t" LATHE_TWELVE(STEP)                    \
                 "decq %0\n\t"                                  \
                 "jnz 1b\n\t"                                   \
                 "vzeroupper\n\t"                               \
                 : "+r"(repeats)                                \
                 : "m"(kOperand)                                \
                 : LATHE_VECTOR_CLOBBERS); \
  }
#define LATHE_FMA_YMM(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" n "\n\t"
#define LATHE_FMA_ZMM(n) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" n "\n\t"
// Without VNNI, kernels multiply 16-bit words and add the pairs.
#define LATHE_WORDS_YMM(n) "vpmaddwd %%ymm14, %%ymm15, %%ymm13\n\tvpaddd %%ymm13, %%ymm" n ", %%ymm" n "\n\t"
#define LATHE_WORDS_ZMM(n) "vpmaddwd %%zmm14, %%zmm15, %%zmm13\n\tvpaddd %%zmm13, %%zmm" n ", %%zmm" n "\n\t"
#define LATHE_BYTES_ZMM(n) "vpdpbusd %%zmm14, %%zmm15, %%zmm" n "\n\t"
#define LATHE_BF16_ZMM(n) "vdpbf16ps %%zmm14, %%zmm15, %%zmm" n "\n\t"
LATHE_X86_LOOP(run_fma_ymm, "ymm", LATHE_FMA_YMM)
LATHE_X86_LOOP(run_fma_zmm, "zmm", LATHE_FMA_ZMM)
LATHE_X86_LOOP(run_words_ymm, "ymm", LATHE_WORDS_YMM)
LATHE_X86_LOOP(run_words_zmm, "zmm", LATHE_WORDS_ZMM)
LATHE_X86_LOOP(run_bytes_zmm, "zmm", LATHE_BYTES_ZMM)
LATHE_X86_LOOP(run_bf16_zmm, "zmm", LATHE_BF16_ZMM)

// Operand of ldtilecfg: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64, "ldtilecfg reads 64 bytes");
constexpr TileConfig kTileConfig;
constexpr double kTileAccumulators = 6, kTileLines = 16, kTileBytes = 16 * 64;

#define LATHE_SIX(X) X("0") X("1") X("2") X("3") X("4") X("5")
#define LATHE_TILE_ZERO(n) "tilezero %%tmm" n "\n\t"
#define LATHE_TILE_BYTES(n) "tdpbssd %%tmm6, %%tmm7, %%tmm" n "\n\t"
#define LATHE_TILE_BF16(n) "tdpbf16ps %%tmm6, %%tmm7, %%tmm" n "\n\t"
#define LATHE_TILE_LOOP(name, STEP)                                                                            \
  void name(int64_t repeats) {                                                                                 \
    asm volatile("ldtilecfg %1\n\t" LATHE_SIX(LATHE_TILE_ZERO) LATHE_TILE_ZERO("6") LATHE_TILE_ZERO("7")     \
                 ".p2align 5\n"                                                                             \
                 "1:\n\t" LATHE_SIX(STEP)                                                                   \
                 "decq %0\n\t"                                                                              \
                 "jnz 1b\n\t"                                                                               \
                 "tilerelease\n\t"                                                                          \
                 : "+r"(repeats)                                                                            \
                 : "m"(kTileConfig)                                                                         \
                 : "cc", "memory"); \
  }
LATHE_TILE_LOOP(run_tile_bytes, LATHE_TILE_BYTES)
LATHE_TILE_LOOP(run_tile_bf16, LATHE_TILE_BF16)
#elif defined(__aarch64__)
// 24 hide a latency of six cycles on four units.
#define LATHE_TWENTY_FOUR(X) \
  LATHE_TWELVE(X)            \
  X("12") X("13") X("14") X("15") X("16") X("17") X("18") X("19") X("20") X("21") X("22") X("23")
#define LATHE_CLEAR(n) "movi v" n ".4s, #0\n\t"
#define LATHE_ARM_LOOP(name, EXTENSION, STEP)                                                                     \
  void name(int64_t repeats) {                                                                                    \
    asm volatile(EXTENSION LATHE_TWENTY_FOUR(LATHE_CLEAR)                                                       \
                 "ld1r {v30.4s}, [%1]\n\t"                                                                      \
                 "ld1r {v31.4s}, [%1]\n"                                                                        \
                 "1:\n\t" LATHE_TWENTY_FOUR(STEP)                                                               \
                 "subs %0, %0, #1\n\t"                                                                          \
                 "b.ne 1b\n\t"                                                                                  \
                 : "+r"(repeats)                                                                                \
                 : "r"(&kOperand)                                                                               \
                 : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",      \
                   "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31", "cc",    \
                   "memory"); \
  }
#define LATHE_FMLA(n) "fmla v" n ".4s, v30.4s, v31.4s\n\t"
#define LATHE_SDOT(n) "sdot v" n ".4s, v30.16b, v31.16b\n\t"
#define LATHE_BFDOT(n) "bfdot v" n ".4s, v30.8h, v31.8h\n\t"
LATHE_ARM_LOOP(run_fmla, "", LATHE_FMLA)
LATHE_ARM_LOOP(run_sdot, ".arch_extension dotprod\n\t", LATHE_SDOT)
LATHE_ARM_LOOP(run_bfdot, ".arch_extension bf16\n\t", LATHE_BFDOT)
#endif

constexpr char kF32[] = "f32_products_per_second", kInt8[] = "int8_products_per_second",
               kBf16[] = "bf16_products_per_second";

}  // namespace

#if defined(__x86_64__)
std::vector<RateLoop> rate_loops(const Target& target) {
  std::vector<RateLoop> loops;
  const auto add = [&](const char* fact, const char* instruction, double bytes, double element_bytes,
                       void (*run)(int64_t)) {
    loops.push_back({fact, instruction, kAccumulators * bytes / element_bytes, run});
  };
  if (target.has("avx512f")) {
    add(kF32, "vfmadd231ps zmm", 64, 4, run_fma_zmm);
    if (target.has("avx512vnni"))
      add(kInt8, "vpdpbusd zmm", 64, 1, run_bytes_zmm);
    else
      add(kInt8, "vpmaddwd zmm, vpaddd", 64, 2, run_words_zmm);
  } else if (target.has("fma")) {
    add(kF32, "vfmadd231ps ymm", 32, 4, run_fma_ymm);
    add(kInt8, "vpmaddwd ymm, vpaddd", 32, 2, run_words_ymm);
  }
  if (target.has("avx512bf16")) add(kBf16, "vdpbf16ps zmm", 64, 2, run_bf16_zmm);
  const double tiles = kTileAccumulators * kTileLines * kTileBytes;
  if (target.has("amx-int8"))
    loops.push_back({"tile_int8_products_per_second", "tdpbssd", tiles, run_tile_bytes});
  if (target.has("amx-bf16"))
    loops.push_back({"tile_bf16_products_per_second", "tdpbf16ps", tiles / 2, run_tile_bf16});
  return loops;
}

void run_dependent_adds(int64_t repeats) {
  int64_t sum = 0;
  asm volatile(
      "1:\n\t"
      ".rept 32\n\t"
      "addq %2, %1\n\t"
      ".endr\n\t"
      "decq %0\n\t"
      "jnz 1b\n\t"
      : "+&r"(repeats), "+&r"(sum)
      : "r"(repeats)
      : "cc");
}
#elif defined(__aarch64__)
std::vector<RateLoop> rate_loops(const Target& target) {
  constexpr double kVectors = 2 * kAccumulators;
  std::vector<RateLoop> loops = {{kF32, "fmla v.4s", kVectors * 4, run_fmla}};
  if (target.has("dotprod")) loops.push_back({kInt8, "sdot", kVectors * 16, run_sdot});
  if (target.has("bf16")) loops.push_back({kBf16, "bfdot", kVectors * 8, run_bfdot});
  return loops;
}

void run_dependent_adds(int64_t repeats) {
  int64_t sum = 0;
  asm volatile(
      "1:\n\t"
      ".rept 32\n\t"
      "add %1, %1, %2\n\t"
      ".endr\n\t"
      "subs %0, %0, #1\n\t"
      "b.ne 1b\n\t"
      : "+&r"(repeats), "+&r"(sum)
      : "r"(repeats)
      : "cc");
}
#endif

}  // namespace lathe
