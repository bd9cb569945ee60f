// mma.sync and the matrix moves, compared with plain loops. The fragments are laid out element by element, as in the
// PTX ISA's section on each shape.
#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

struct Place {
  int row, column;
};

struct Case {
  const char* name;  // shape and types
  int m, k;
  int bits;              // of an element
  int a_count, b_count;  // elements per lane
  bool integer;
  std::function<double(uint32_t)> value;
  std::function<uint32_t()> random;
};

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
// Exponents near one, so that sums neither overflow nor underflow.
uint32_t random_f16() {
  return static_cast<uint32_t>(random_int(11 << 10, (18 << 10) - 1) | random_int(0, 1) << 15);
}
uint32_t random_bf16() {
  return static_cast<uint32_t>(random_int(123 << 7, (130 << 7) - 1) | random_int(0, 1) << 15);
}
uint32_t random_tf32() { return bits_of(std::uniform_real_distribution<float>(-4, 4)(test_random())); }
uint32_t random_byte() { return static_cast<uint32_t>(random_int(0, 255)); }
uint32_t random_e4m3() { return static_cast<uint32_t>(random_int(0, 0x5f) | random_int(0, 1) << 7); }
uint32_t random_e5m2() { return static_cast<uint32_t>(random_int(0, 0x47) | random_int(0, 1) << 7); }

// The position in A of element i of a lane's fragment.
Place place_a(const Case& c, int lane, int i) {
  const int group = lane >> 2, quad = lane & 3;
  switch (c.bits) {
    case 16:  // m16n8k8, m16n8k16
      return {i < 2 || (i >= 4 && i < 6) ? group : group + 8,
              i < 4 ? quad * 2 + (i & 1) : quad * 2 + (i & 1) + 8};
    case 32:  // m16n8k4, m16n8k8
      return {i == 0 || i == 2 ? group : group + 8, i < 2 ? quad : quad + 4};
    default:  // m8n8k16, m16n8k16, m16n8k32
      return {i < 4 || (i >= 8 && i < 12) ? group : group + 8,
              i < 8 ? quad * 4 + (i & 3) : quad * 4 + (i & 3) + 16};
  }
}
// The same for B; the row is k.
Place place_b(const Case& c, int lane, int i) {
  const int group = lane >> 2, quad = lane & 3;
  switch (c.bits) {
    case 16: return {i < 2 ? quad * 2 + (i & 1) : quad * 2 + (i & 1) + 8, group};
    case 32: return {i == 0 ? quad : quad + 4, group};
    default: return {i < 4 ? quad * 4 + (i & 3) : quad * 4 + (i & 3) + 16, group};
  }
}
Place place_c(int lane, int i) { return {i < 2 ? lane >> 2 : (lane >> 2) + 8, (lane & 3) * 2 + (i & 1)}; }

std::string list(const char* prefix, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", prefix, first + i);
  return text + "}";
}

void check(const Case& c) {
  SCOPED_TRACE(c.name);
  const int sums = c.m == 8 ? 2 : 4, a_words = c.a_count * c.bits / 32, b_words = c.b_count * c.bits / 32;
  std::string body = "mov.u32 %r0, %laneid;\n";
  const auto address = [&](int pointer, int words) {
    absl::StrAppend(&body, "mul.wide.u32 %rd10, %r0, ", 4 * words, "; add.s64 %rd11, %rd", pointer,
                    ", %rd10;\n");
  };
  const auto load = [&](int pointer, int words, int first) {
    address(pointer, words);
    for (int i = 0; i < words; ++i)
      absl::StrAppend(&body, "ld.global.b32 %r", first + i, ", [%rd11+", 4 * i, "];\n");
  };
  load(0, a_words, 10);
  load(1, b_words, 20);
  load(2, sums, 30);
  absl::StrAppend(&body, "mma.sync.aligned.", c.name, " ", list("%r", 40, sums), ", ",
                  list("%r", 10, a_words), ", ", list("%r", 20, b_words), ", ", list("%r", 30, sums), ";\n");
  address(3, sums);
  for (int i = 0; i < sums; ++i)
    absl::StrAppend(&body, "st.global.b32 [%rd11+", 4 * i, "], %r", 40 + i, ";\n");

  std::vector<uint32_t> a(static_cast<size_t>(32 * a_words), 0), b(static_cast<size_t>(32 * b_words), 0),
      start(static_cast<size_t>(32 * sums)), d(start.size());
  std::vector<std::vector<double>> left(16, std::vector<double>(64)), right(64, std::vector<double>(8)),
      sum(16, std::vector<double>(8));
  const int per_word = 32 / c.bits;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < c.a_count; ++i) {
      const uint32_t bits = c.random();
      a[static_cast<size_t>(lane * a_words + i / per_word)] |= bits << (i % per_word * c.bits);
      const Place at = place_a(c, lane, i);
      left[at.row][at.column] = c.value(bits);
    }
    for (int i = 0; i < c.b_count; ++i) {
      const uint32_t bits = c.random();
      b[static_cast<size_t>(lane * b_words + i / per_word)] |= bits << (i % per_word * c.bits);
      const Place at = place_b(c, lane, i);
      right[at.row][at.column] = c.value(bits);
    }
    for (int i = 0; i < sums; ++i) {
      const int whole = random_int(-1000, 1000);
      start[static_cast<size_t>(lane * sums + i)] =
          c.integer ? static_cast<uint32_t>(whole) : bits_of(static_cast<float>(whole) / 16);
      sum[place_c(lane, i).row][place_c(lane, i).column] = c.integer ? whole : whole / 16.0;
    }
  }
  Program program(4, body);
  program.buffer(a);
  program.buffer(b);
  program.buffer(start);
  program.buffer(d);
  const absl::Status status = program.run();
  ASSERT_TRUE(status.ok()) << status;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < sums; ++i) {
      const Place at = place_c(lane, i);
      double expected = sum[at.row][at.column], magnitude = std::fabs(expected);
      for (int k = 0; k < c.k; ++k) {
        expected += left[at.row][k] * right[k][at.column];
        magnitude += std::fabs(left[at.row][k] * right[k][at.column]);
      }
      const uint32_t bits = d[static_cast<size_t>(lane * sums + i)];
      const double actual = c.integer ? static_cast<int32_t>(bits) : value_f32(bits);
      EXPECT_NEAR(actual, expected, c.integer ? 0 : magnitude * std::ldexp(1, -23))
          << "lane " << lane << " element " << i;
    }
  }
}

TEST(Mma, EveryShape) {
  const auto s8 = [](uint32_t b) { return static_cast<double>(static_cast<int8_t>(b)); };
  const auto u8 = [](uint32_t b) { return static_cast<double>(b & 255); };
  const Case cases[] = {
      {"m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 16, 4, 2, false, value_f16, random_f16},
      {"m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 16, 8, 4, false, value_f16, random_f16},
      {"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 16, 4, 2, false, value_bf16, random_bf16},
      {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, 16, 8, 4, false, value_bf16, random_bf16},
      {"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4, 32, 2, 1, false, value_tf32, random_tf32},
      {"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 32, 4, 2, false, value_tf32, random_tf32},
      {"m8n8k16.row.col.s32.s8.s8.s32", 8, 16, 8, 4, 4, true, s8, random_byte},
      {"m16n8k16.row.col.s32.s8.s8.s32", 16, 16, 8, 8, 4, true, s8, random_byte},
      {"m16n8k32.row.col.s32.s8.s8.s32", 16, 32, 8, 16, 8, true, s8, random_byte},
      {"m16n8k32.row.col.satfinite.s32.u8.u8.s32", 16, 32, 8, 16, 8, true, u8, random_byte},
      {"m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 32, 8, 16, 8, false, value_e4m3, random_e4m3},
      {"m16n8k32.row.col.f32.e5m2.e5m2.f32", 16, 32, 8, 16, 8, false, value_e5m2, random_e5m2},
  };
  for (const Case& c : cases) check(c);
}

TEST(Mma, NeedsTheWholeWarp) {
  Program program(0,
                  "mov.u32 %r0, %laneid; setp.eq.u32 %p1, %r0, 3; @%p1 exit;"
                  "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2}, "
                  "{%f0,%f1,%f2,%f3};");
  EXPECT_EQ(program.run().code(), absl::StatusCode::kAborted);
}

// 8x8 matrices whose rows are scattered in shared memory: lane 8 * i + r gives the address of row r of matrix i.
void check_matrices(int count, bool transposed, bool stores) {
  SCOPED_TRACE(absl::StrCat(count, transposed ? " transposed" : "", stores ? " stored" : ""));
  std::vector<uint16_t> rows(32 * 8), d(32 * 8, 0);
  std::vector<uint32_t> order(32), fragments(32 * 4, 0);
  for (auto& element : rows) element = static_cast<uint16_t>(random_int(0, 65535));
  for (uint32_t i = 0; i < 32; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), test_random());
  // Pointers: rows, order, fragments, d. The rows go into shared memory, row i at order[i].
  std::string body = R"(
    .shared .align 16 .b8 s[512]; mov.u32 %r0, %laneid; mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd1, %rd10; ld.global.u32 %r1, [%rd11];
    shl.b32 %r1, %r1, 4; mov.b32 %r2, s; add.u32 %r1, %r1, %r2; mul.wide.u32 %rd10, %r0, 16; add.s64 %rd12, %rd0, %rd10;
    ld.global.b64 %rd20, [%rd12]; ld.global.b64 %rd21, [%rd12+8]; st.shared.b64 [%r1], %rd20; st.shared.b64 [%r1+8], %rd21; bar.sync 0;
    add.s64 %rd13, %rd2, %rd10;
)";
  const std::string form =
      absl::StrCat("sync.aligned.m8n8.x", count, transposed ? ".trans" : "", ".shared.b16 ");
  if (stores) {
    for (int i = 0; i < count; ++i)
      absl::StrAppend(&body, "ld.global.b32 %r", 10 + i, ", [%rd13+", 4 * i, "];");
    absl::StrAppend(&body, "stmatrix.", form, "[%r1], ", list("%r", 10, count), ";");
  } else {
    absl::StrAppend(&body, "ldmatrix.", form, list("%r", 10, count), ", [%r1];");
    for (int i = 0; i < count; ++i)
      absl::StrAppend(&body, "st.global.b32 [%rd13+", 4 * i, "], %r", 10 + i, ";");
  }
  body +=
      "bar.sync 0; add.s64 %rd14, %rd3, %rd10; ld.shared.b64 %rd20, [%r1]; ld.shared.b64 %rd21, [%r1+8]; "
      "st.global.b64 [%rd14], %rd20; st.global.b64 [%rd14+8], %rd21;";
  if (stores) {
    for (auto& word : fragments) word = static_cast<uint32_t>(test_random()());
  }
  Program program(4, body);
  program.buffer(rows);
  program.buffer(order);
  program.buffer(fragments);
  program.buffer(d);
  const absl::Status status = program.run();
  ASSERT_TRUE(status.ok()) << status;
  for (int matrix = 0; matrix < count; ++matrix) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int e = 0; e < 2; ++e) {
        const int row = transposed ? lane % 4 * 2 + e : lane / 4,
                  column = transposed ? lane / 4 : lane % 4 * 2 + e;
        const size_t place = static_cast<size_t>((matrix * 8 + row) * 8 + column);
        EXPECT_EQ(static_cast<uint16_t>(fragments[static_cast<size_t>(lane * 4 + matrix)] >> (16 * e)),
                  stores ? d[place] : rows[place]);
      }
    }
  }
}

TEST(Matrices, LoadAndStore) {
  for (int count : {1, 2, 4}) {
    for (bool transposed : {false, true}) {
      check_matrices(count, transposed, false);
      check_matrices(count, transposed, true);
    }
  }
}

TEST(Matrices, RowsMustBeAligned) {
  Program program(0,
                  ".shared .align 16 .b8 s[512]; mov.u32 %r0, %laneid; mad.lo.u32 %r1, %r0, 8, 1024; "
                  "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2,%r3,%r4,%r5}, [%r1];");
  EXPECT_EQ(program.run().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lathe::ptx
