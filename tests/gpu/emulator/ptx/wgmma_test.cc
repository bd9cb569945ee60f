// wgmma: every type, both layouts of each swizzle, and the mistakes that a pipeline can make.
#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

constexpr std::array<uint32_t, 3> kOne = {1, 1, 1}, kWarpgroup = {128, 1, 1};
constexpr uint32_t kBase = 1024;  // where dynamic shared memory starts if there is no static shared memory
constexpr char kDynamic[] = ".extern .shared .align 1024 .b8 d[];";

double value_s8(uint32_t b) { return static_cast<int8_t>(b); }

struct Element {
  const char* name;
  const char* sums;
  uint32_t bytes;
  double (*value)(uint32_t);
  uint32_t (*random)();
};
constexpr Element kF16 = {
    "f16", "f32", 2, value_f16,
    [] { return static_cast<uint32_t>(random_int(11 << 10, (18 << 10) - 1) | random_int(0, 1) << 15); }};
constexpr Element kBf16 = {
    "bf16", "f32", 2, value_bf16,
    [] { return static_cast<uint32_t>(random_int(123 << 7, (130 << 7) - 1) | random_int(0, 1) << 15); }};
constexpr Element kTf32 = {"tf32", "f32", 4, value_tf32, [] {
                             const float x = std::uniform_real_distribution<float>(-4, 4)(test_random());
                             uint32_t bits;
                             std::memcpy(&bits, &x, 4);
                             return bits;
                           }};
constexpr Element kE4m3 = {"e4m3", "f32", 1, value_e4m3,
                           [] { return static_cast<uint32_t>(random_int(0, 0x5f) | random_int(0, 1) << 7); }};
constexpr Element kS8 = {"s8", "s32", 1, value_s8, [] { return static_cast<uint32_t>(random_int(0, 255)); }};

std::string list(const char* prefix, int first, uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", prefix, first + static_cast<int>(i));
  return text + "}";
}

// An operand with 32 bytes of K in shared memory, written element by element.
struct Operand {
  std::vector<uint8_t> bytes;  // shared memory from `start` on
  uint64_t descriptor = 0;
  std::vector<std::vector<double>> values;  // for each row and k
};

// The canonical layouts of CUTLASS, in units of 16 bytes (8 rows, or a half of K of one row).
//   K-major, swizzled       ((8, n), 2) : ((span, SBO), 1)
//   K-major, not swizzled   ((8, n), 2) : ((1, SBO), LBO)
//   transposed, swizzled    ((span, n), (8, k)) : ((1, LBO), (span, SBO))
//   transposed, not         ((1, n), (8, k)) : ((-, SBO), (1, LBO))
// Address bits 4 to 6 are then XORed with bits 7 to 9; the span says how many of them.
Operand make_operand(const Element& element, uint32_t rows, uint32_t span, bool transposed, uint32_t start) {
  Operand operand;
  const uint32_t k = 32 / element.bytes, units = span / 16, per_unit = 16 / element.bytes;
  // Unusual distances, so that the test fails if the descriptor is ignored.
  const uint32_t groups_of_rows = (rows + 7) / 8;
  uint32_t leading, stride;
  if (!transposed) {
    leading = units == 1 ? groups_of_rows * 8 + 8 : 1;
    stride = units == 1 ? 8 : 8 * units;
  } else if (units == 1) {
    stride = 24;  // between chunks of eight rows
    leading = 8;  // between groups of eight k
  } else {
    leading = 2 * 8 * units + 64;  // between spans of rows, behind 16 k
    stride = 8 * units;
  }
  operand.bytes.assign(uint64_t{16} * 4096, 0xff);
  operand.values.assign(rows, std::vector<double>(k));
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t column = 0; column < k; ++column) {
      uint32_t unit, byte;
      if (!transposed) {
        unit = row % 8 * units + row / 8 * stride + column / per_unit * leading;
        byte = column % per_unit * element.bytes;
      } else {
        const uint32_t chunk = row / 8;
        unit = units == 1
                   ? chunk * stride + column % 8 + column / 8 * leading
                   : chunk % units + chunk / units * leading + column % 8 * units + column / 8 * stride;
        byte = row % 8 * element.bytes;
      }
      uint32_t address = kBase + start + unit * 16;
      address ^= (address >> 7 & (units - 1)) << 4;
      const uint32_t bits = element.random();
      std::memcpy(&operand.bytes.at(address - kBase - start + byte), &bits, element.bytes);
      operand.values[row][column] = element.value(bits);
    }
  }
  const uint64_t mode = units == 1 ? 0 : units == 2 ? 3 : units == 4 ? 2 : 1;
  operand.descriptor = (kBase + start) / 16 | uint64_t{leading} << 16 | uint64_t{stride} << 32 | mode << 62;
  return operand;
}

std::string copy_to_shared(uint32_t bytes) {
  return absl::StrCat(R"(
    mov.u32 %r0, %tid.x; mov.b32 %r1, d; shl.b32 %r2, %r0, 4;
    copy: cvt.u64.u32 %rd10, %r2; add.s64 %rd11, %rd0, %rd10; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd11]; add.u32 %r3, %r1, %r2;
    st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7}; add.u32 %r2, %r2, 2048; setp.lt.u32 %p1, %r2, )",
                      bytes, "; @%p1 bra copy;\n");
}

std::string sums_address(uint32_t n) {
  return absl::StrCat("mul.wide.u32 %rd12, %r0, ", 2 * n,
                      "; add.s64 %rd13, %rd1, %rd12; add.s64 %rd14, %rd2, %rd12;\n");
}
std::string load_sums(uint32_t n) {
  std::string text;
  for (uint32_t i = 0; i < n / 2; ++i)
    absl::StrAppend(&text, "ld.global.b32 %r", 100 + i, ", [%rd13+", 4 * i, "];");
  return text;
}
std::string store_sums(uint32_t n) {
  std::string text;
  for (uint32_t i = 0; i < n / 2; ++i)
    absl::StrAppend(&text, "st.global.b32 [%rd14+", 4 * i, "], %r", 100 + i, ";");
  return text;
}

struct Case {
  Element element;
  uint32_t n;
  uint32_t a_span, b_span;
  bool a_transposed, b_transposed, a_registers;
};

void check(const Case& c) {
  SCOPED_TRACE(absl::StrCat(c.element.name, " n ", c.n, " spans ", c.a_span, c.a_transposed ? "t " : " ",
                            c.b_span, c.b_transposed ? "t" : "", c.a_registers ? " registers" : ""));
  const Element& e = c.element;
  const uint32_t k = 32 / e.bytes, per_word = 4 / e.bytes;
  Operand a = make_operand(e, 64, c.a_span, c.a_transposed, 0);
  Operand b = make_operand(e, c.n, c.b_span, c.b_transposed, 65536);
  std::vector<uint8_t> image = a.bytes;
  image.insert(image.end(), b.bytes.begin(), b.bytes.end());
  const bool integer = std::string(e.sums) == "s32";
  std::vector<uint32_t> start(128 * c.n / 2), out(start.size()), fragments(128 * 4, 0);
  for (auto& word : start) {
    const float x = random_eighth();
    if (integer)
      word = static_cast<uint32_t>(random_int(-1000, 1000));
    else
      std::memcpy(&word, &x, 4);
  }
  std::string body =
      copy_to_shared(131072) + sums_address(c.n) + load_sums(c.n) + "fence.proxy.async; bar.sync 0;";
  std::string left = absl::StrCat(a.descriptor);
  if (c.a_registers) {
    // Element i of a thread as the PTX ISA lays out A: 16 rows per warp, four registers per thread.
    for (uint32_t thread = 0; thread < 128; ++thread) {
      for (uint32_t i = 0; i < 4 * per_word; ++i) {
        const uint32_t reg = i / per_word, row = thread / 32 * 16 + thread % 32 / 4 + (reg % 2) * 8;
        const uint32_t column = thread % 4 * per_word + i % per_word + (reg / 2) * 4 * per_word;
        const uint32_t bits = e.random();
        fragments[thread * 4 + reg] |= bits << (i % per_word * 8 * e.bytes);
        a.values[row][column] = e.value(bits);
      }
    }
    body +=
        "mul.wide.u32 %rd15, %r0, 16; add.s64 %rd15, %rd3, %rd15; ld.global.v4.b32 {%r80, %r81, %r82, %r83}, "
        "[%rd15];";
    left = "{%r80, %r81, %r82, %r83}";
  }
  std::string flags = integer ? "" : ", 1, 1";
  if (e.bytes == 2)
    absl::StrAppend(&flags,
                    c.a_registers    ? ""
                    : c.a_transposed ? ", 1"
                                     : ", 0",
                    c.b_transposed ? ", 1" : ", 0");
  absl::StrAppend(&body, "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n", c.n, "k", k, ".",
                  e.sums, ".", e.name, ".", e.name, " ", list("%r", 100, c.n / 2), ", ", left, ", ",
                  b.descriptor, ", 1", flags,
                  "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;", store_sums(c.n));
  Program program(4, body, ".reqntid 128, 1, 1", kDynamic);
  program.dynamic_shared = 131072;
  program.buffer(image);
  program.buffer(start);
  program.buffer(out);
  program.buffer(fragments);
  program.run_all(
      kOne, kWarpgroup,
      [&] {
        for (uint32_t thread = 0; thread < 128; ++thread) {
          for (uint32_t i = 0; i < c.n / 2; ++i) {
            const uint32_t row = thread / 32 * 16 + thread % 32 / 4 + (i / 2 % 2) * 8,
                           column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            const uint32_t first = start[thread * c.n / 2 + i];
            double expected = integer ? static_cast<int32_t>(first) : value_f32(first),
                   magnitude = std::fabs(expected);
            for (uint32_t at = 0; at < k; ++at) {
              expected += a.values[row][at] * b.values[column][at];
              magnitude += std::fabs(a.values[row][at] * b.values[column][at]);
            }
            const uint32_t bits = out[thread * c.n / 2 + i];
            ASSERT_NEAR(integer ? static_cast<int32_t>(bits) : value_f32(bits), expected,
                        integer ? 0 : magnitude * std::ldexp(1, -23))
                << "row " << row << " column " << column;
          }
        }
      },
      1);
}

TEST(Wgmma, EveryLayoutOfSixteenBits) {
  for (const uint32_t span : {16u, 32u, 64u, 128u}) {
    for (const bool transposed : {false, true}) {
      check({kF16, 64, span, 128, transposed, false, false});
      check({kBf16, 128, 128, span, false, transposed, false});
    }
  }
}

TEST(Wgmma, EveryWidth) {
  for (const uint32_t n : {8u, 16u, 24u, 96u, 136u, 256u}) check({kBf16, n, 128, 128, false, false, false});
}

TEST(Wgmma, OtherTypes) {
  for (const Element& element : {kTf32, kE4m3, kS8}) {
    for (const uint32_t span : {16u, 32u, 128u}) check({element, 64, 128, span, false, false, false});
  }
}

TEST(Wgmma, LeftOperandFromRegisters) {
  for (const Element& element : {kF16, kBf16, kTf32, kE4m3, kS8})
    check({element, 32, 16, 128, false, false, true});
}

// An f16 product whose operands are all ones, in every layout. The text before and after it may add a mistake.
struct Ones {
  explicit Ones(const std::string& before, const std::string& after, bool fenced = true)
      : image(32768 / 2, 0x3c00),
        start(128 * 4, 0),
        out(128 * 4),
        program(3,
                copy_to_shared(32768) + sums_address(8) + load_sums(8) +
                    (fenced ? "fence.proxy.async;" : "") + "bar.sync 0;" + before +
                    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r100, %r101, %r102, %r103}, " +
                    descriptor(0) + ", " + descriptor(16384) +
                    ", 1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;" + after + store_sums(8),
                ".reqntid 128, 1, 1", kDynamic) {
    program.dynamic_shared = 32768;
    program.buffer(image);
    program.buffer(start);
    program.buffer(out);
  }
  static std::string descriptor(uint32_t start) {
    return absl::StrCat((kBase + start) / 16 | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62);
  }
  bool right() const {
    for (const uint32_t word : out) {
      if (value_f32(word) != 16) return false;
    }
    return true;
  }
  std::vector<uint16_t> image;
  std::vector<uint32_t> start, out;
  Program program;
};

constexpr char kFence[] = "wgmma.fence.sync.aligned;", kWait[] = "wgmma.wait_group.sync.aligned 0;";

TEST(Wgmma, AllowsOnlyMovesOfValuesInFlight) {
  Ones moved(kFence, absl::StrCat("mov.b32 %r110, %r100; mov.b32 %r111, %r110; mov.b32 %r110, 0;", kWait,
                                  "mov.b32 %r100, %r111;"));
  moved.program.run_all(kOne, kWarpgroup, [&] { EXPECT_TRUE(moved.right()); });
  Ones read(kFence, absl::StrCat("add.f32 %f1, %r100, %r100;", kWait));
  EXPECT_THAT(std::string(read.program.run(kOne, kWarpgroup).message()), HasSubstr("in flight will write"));
  Ones written(kFence, absl::StrCat("mov.b32 %r100, 0;", kWait));
  EXPECT_THAT(std::string(written.program.run(kOne, kWarpgroup).message()),
              HasSubstr("overwrites the result"));
  Ones stored(kFence, "");
  EXPECT_THAT(std::string(stored.program.run(kOne, kWarpgroup).message()), HasSubstr("in flight will write"));
}

TEST(Wgmma, ChainsWithoutWaiting) {
  const std::string again = absl::StrCat(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r110, %r111, %r112, %r103}, ", Ones::descriptor(0),
      ", ", Ones::descriptor(16384), ", %p9, 1, -1, 0, 0; wgmma.commit_group.sync.aligned;");
  const std::string moves = "mov.b32 %r110, %r100; mov.b32 %r111, %r101; mov.b32 %r112, %r102;";
  const std::string back = "mov.b32 %r100, %r110; mov.b32 %r101, %r111; mov.b32 %r102, %r112;";
  // 16; then 16 - 16 = 0; then scale-d = 0 discards that: 0 - 16 = -16.
  Ones chain(absl::StrCat(kFence, "setp.eq.u32 %p9, 0, 0;"),
             absl::StrCat(moves, again, "wgmma.wait_group.sync.aligned 1; setp.ne.u32 %p9, 0, 0;", again,
                          kWait, back));
  for (auto& word : chain.start) word = 0x40000000;
  chain.program.run_all(kOne, kWarpgroup, [&] {
    for (const uint32_t word : chain.out) EXPECT_EQ(value_f32(word), -16);
  });
}

TEST(Wgmma, ReportsMissingFencesAndWaits) {
  EXPECT_THAT(std::string(Ones("", kWait).program.run(kOne, kWarpgroup).message()),
              HasSubstr("there is no wgmma.fence"));
  EXPECT_THAT(std::string(Ones(kFence, kWait, false).program.run(kOne, kWarpgroup).message()),
              HasSubstr("without a later fence.proxy.async"));
  EXPECT_THAT(std::string(Ones(kFence, "exit;").program.run(kOne, kWarpgroup).message()),
              HasSubstr("wgmma in flight"));
  // An operand is overwritten before the wait, so a late product reads the new value.
  Ones overwritten(
      kFence,
      absl::StrCat("mov.b32 %r60, d; mov.b32 %r61, 0; st.shared.b32 [%r60], %r61; fence.proxy.async; ",
                   kWait));
  EXPECT_GE(overwritten.program.count_failures(kOne, kWarpgroup, [&] { return overwritten.right(); }), 8);
  Ones divergent(absl::StrCat(kFence, "setp.gt.u32 %p9, %r0, 95; @%p9 bra skip;"),
                 absl::StrCat("skip:", kWait));
  EXPECT_EQ(divergent.program.run(kOne, kWarpgroup).code(), absl::StatusCode::kDeadlineExceeded);
}

// A whole matmul pipeline: tensor copies with a 128-byte swizzle load A and B through a ring of stages, with four
// products per stage. Thread 128 produces, a warpgroup consumes.
std::string pipeline(int tiles, int stages, bool early_release, bool transposed_b) {
  // The mbarriers are behind the stages.
  std::string text = absl::StrCat("mov.u32 %r0, %tid.x; mov.b32 %r1, d; add.u32 %r2, %r1, ", stages * 16384,
                                  "; add.u32 %r3, %r2, ", 8 * stages, "; setp.eq.u32 %p1, %r0, 0;");
  for (int s = 0; s < stages; ++s)
    absl::StrAppend(&text, "@%p1 mbarrier.init.shared.b64 [%r2+", 8 * s,
                    "], 1; @%p1 mbarrier.init.shared.b64 [%r3+", 8 * s, "], 128;");
  absl::StrAppend(&text,
                  "fence.mbarrier_init.release.cluster; bar.sync 0; setp.lt.u32 %p2, %r0, 128; @%p2 bra "
                  "consumer; setp.ne.u32 %p3, %r0, 128; @%p3 exit;\n");
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % stages, round = tile / stages, place = stage * 16384;
    absl::StrAppend(&text, "p", tile, ": mbarrier.try_wait.parity.shared.b64 %p4, [%r3+", 8 * stage, "], ",
                    (round & 1) ^ 1, "; @!%p4 bra p", tile, ";\n");
    absl::StrAppend(&text, "mbarrier.arrive.expect_tx.shared.b64 _, [%r2+", 8 * stage, "], 16384;");
    const std::string copy =
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+";
    absl::StrAppend(&text, copy, place, "], [%rd100, {", tile * 64, ", 0}], [%r2+", 8 * stage, "];");
    absl::StrAppend(&text, copy, place + 8192, "], [%rd101, {", transposed_b ? "0, " : "", tile * 64,
                    transposed_b ? "" : ", 0", "}], [%r2+", 8 * stage, "];\n");
  }
  text += "exit; consumer:\n";
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % stages, round = tile / stages;
    absl::StrAppend(&text, "c", tile, ": mbarrier.try_wait.parity.shared.b64 %p4, [%r2+", 8 * stage, "], ",
                    round & 1, "; @!%p4 bra c", tile, ";\n");
    text += "wgmma.fence.sync.aligned;";
    for (int step = 0; step < 4; ++step) {
      const uint32_t a = kBase + static_cast<uint32_t>(stage) * 16384 + static_cast<uint32_t>(step) * 32;
      const uint32_t b = kBase + static_cast<uint32_t>(stage) * 16384 + 8192 +
                         static_cast<uint32_t>(step) * (transposed_b ? 2048 : 32);
      const uint64_t layout = uint64_t{64} << 32 | uint64_t{1} << 62;
      absl::StrAppend(&text, "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 ", list("%r", 100, 32), ", ",
                      a / 16 | layout, ", ", b / 16 | layout, ", ", tile + step == 0 ? 0 : 1, ", 1, 1, 0, ",
                      transposed_b ? 1 : 0, ";\n");
    }
    const std::string release = absl::StrCat("mbarrier.arrive.shared.b64 _, [%r3+", 8 * stage, "];");
    absl::StrAppend(&text, "wgmma.commit_group.sync.aligned;", early_release ? release : "",
                    "wgmma.wait_group.sync.aligned 0;", early_release ? "" : release, "\n");
  }
  return absl::StrCat(text, sums_address(64), store_sums(64));
}

struct Matmul {
  Matmul(int tiles, int stages, bool early_release, bool transposed_b)
      : k(static_cast<size_t>(tiles) * 64),
        a(64 * k),
        b(64 * k),
        out(64 * 64),
        program(3, pipeline(tiles, stages, early_release, transposed_b), ".reqntid 160, 1, 1", kDynamic, 2),
        b_columns(transposed_b ? 64 : k) {
    // Small integers in f16, so that the sum over 64 tiles is exact.
    static constexpr uint16_t kWhole[] = {0, 0x3c00, 0x4000, 0x4200, 0xbc00, 0xc000};
    for (auto* operand : {&a, &b}) {
      for (auto& value : *operand) value = kWhole[random_int(0, 5)];
    }
    program.dynamic_shared = static_cast<uint32_t>(stages) * (16384 + 16);
    program.buffer(a);
    program.buffer(b);
    program.buffer(out);
    for (const auto& [operand, columns] : {std::pair{&a, k}, std::pair{&b, b_columns}}) {
      TensorMap map;
      map.type = Type::f16;
      map.rank = 2;
      map.address = reinterpret_cast<uint64_t>(operand->data());
      map.extent = {columns, operand->size() / columns};
      map.stride = {2, columns * 2};
      map.box = {64, 64};
      map.swizzle = Swizzle::bytes128;
      program.map(map);
    }
  }
  bool right() const {
    std::vector<double> left(a.size()), right(b.size());
    for (size_t at = 0; at < a.size(); ++at) left[at] = value_f16(a[at]), right[at] = value_f16(b[at]);
    for (uint32_t thread = 0; thread < 128; ++thread) {
      for (uint32_t i = 0; i < 32; ++i) {
        const size_t row = thread / 32 * 16 + thread % 32 / 4 + (i / 2 % 2) * 8,
                     column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        double sum = 0;
        for (size_t at = 0; at < k; ++at)
          sum += left[row * k + at] * right[b_columns == k ? column * k + at : at * 64 + column];
        if (value_f32(out[thread * 32 + i]) != sum) return false;
      }
    }
    return true;
  }
  size_t k;
  std::vector<uint16_t> a, b;
  std::vector<uint32_t> out;
  Program program;
  size_t b_columns;
};

TEST(Pipeline, TensorCopiesFeedProducts) {
  for (const bool transposed_b : {false, true}) {
    Matmul matmul(5, 2, false, transposed_b);
    matmul.program.run_all(kOne, {160, 1, 1}, [&] {
      EXPECT_TRUE(matmul.right());
      std::fill(matmul.out.begin(), matmul.out.end(), 0);
    });
  }
}

TEST(Pipeline, ExposesStageReleasedTooEarly) {
  Matmul matmul(8, 2, true, false);
  matmul.program.options.async = AsyncPolicy::random;
  int wrong = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    matmul.program.options.seed = seed;
    wrong += matmul.program.run(kOne, {160, 1, 1}).ok() && matmul.right() ? 0 : 1;
  }
  EXPECT_GT(wrong, 0);
}

}  // namespace
}  // namespace lathe::ptx
