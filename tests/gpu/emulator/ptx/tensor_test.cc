// Tensor copies: where each element goes, what is read outside the tensor, and what is refused.
#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

constexpr std::array<uint32_t, 3> kOne = {1, 1, 1};

TensorMap tensor_2d(const std::vector<uint16_t>& values, uint64_t columns, uint64_t rows, uint64_t pitch,
                    uint32_t box_columns, uint32_t box_rows, Swizzle swizzle) {
  TensorMap map;
  map.type = Type::f16;
  map.rank = 2;
  map.address = reinterpret_cast<uint64_t>(values.data());
  map.extent = {columns, rows};
  map.stride = {2, pitch * 2};
  map.box = {box_columns, box_rows};
  map.swizzle = swizzle;
  return map;
}

std::vector<uint16_t> random_halves(size_t count) {
  std::vector<uint16_t> values(count);
  for (auto& value : values) value = static_cast<uint16_t>(random_int(1, 65535));
  return values;
}

// One thread loads a box of `bytes` bytes at (x, y) to `offset` in shared memory, then copies it from there to p1.
std::string load_box(int bytes, int x, int y, int offset) {
  return absl::StrCat("mov.b32 %r2, d; add.u32 %r3, %r2, ", offset,
                      R"(; .shared .align 8 .b64 bar; mov.b32 %r1, bar;
    mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], )",
                      bytes, R"(;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd100, {)",
                      x, ", ", y, R"(}], [%r1];
    w: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra w;
    mov.b32 %r4, 0; more: add.u32 %r5, %r3, %r4; ld.shared.b64 %rd5, [%r5]; cvt.u64.u32 %rd6, %r4; add.s64 %rd6, %rd1, %rd6; st.global.b64 [%rd6], %rd5;
    add.u32 %r4, %r4, 8; setp.lt.u32 %p2, %r4, )",
                      bytes, "; @%p2 bra more;");
}

constexpr char kDynamic[] = ".extern .shared .align 1024 .b8 d[];";

TEST(Tensor, SwizzlesByAddressBits) {
  struct Case {
    Swizzle swizzle;
    uint32_t columns;
  };
  for (const Case& c : {Case{Swizzle::none, 40}, Case{Swizzle::bytes32, 16}, Case{Swizzle::bytes64, 32},
                        Case{Swizzle::bytes128, 64}}) {
    for (const int offset : {0, 128, 384, 1024}) {
      SCOPED_TRACE(absl::StrCat(c.columns, " columns at ", offset));
      std::vector<uint16_t> in = random_halves(100 * 72), out(c.columns * 16);
      Program program(2, load_box(static_cast<int>(c.columns * 32), 4, 30, offset), "", kDynamic, 1);
      program.buffer(in);
      program.buffer(out);
      program.map(tensor_2d(in, 70, 100, 72, c.columns, 16, c.swizzle));
      program.dynamic_shared = 8192;
      program.run_all(
          kOne, kOne,
          [&] {
            for (uint32_t row = 0; row < 16; ++row) {
              for (uint32_t column = 0; column < c.columns; ++column) {
                // The swizzle permutes the 16-byte chunks of a row; the permutation depends on which 128-byte line
                // of a KiB the row is in.
                const uint32_t pitch = c.columns * 2,
                               line = (static_cast<uint32_t>(offset) + row * pitch) / 128 % 8;
                const uint32_t phase = c.swizzle == Swizzle::none      ? 0
                                       : c.swizzle == Swizzle::bytes32 ? line % 2
                                       : c.swizzle == Swizzle::bytes64 ? line % 4
                                                                       : line;
                const uint32_t within = column / 8 + (pitch < 128 ? row * pitch % 128 / 16 : 0);
                const uint32_t chunk = within ^ phase;
                const uint32_t start =
                    pitch < 128 && c.swizzle != Swizzle::none ? row * pitch / 128 * 64 : row * c.columns;
                const uint32_t place =
                    c.swizzle == Swizzle::none ? row * c.columns + column : start + chunk * 8 + column % 8;
                const uint16_t expected = column + 4 < 70 ? in[(row + 30) * 72 + column + 4] : 0;
                ASSERT_EQ(out[place], expected) << row << " " << column;
              }
            }
          },
          1);
    }
  }
}

TEST(Tensor, LoadsZerosOutsideTheTensor) {
  std::vector<uint16_t> in = random_halves(20 * 24), out(64 * 8);
  for (const auto& [x, y] : {std::pair{-5, -2}, std::pair{10, 15}, std::pair{100, 0}, std::pair{0, -8}}) {
    Program program(2, load_box(64 * 8 * 2, x, y, 0), "", kDynamic, 1);
    program.buffer(in);
    program.buffer(out);
    TensorMap map = tensor_2d(in, 20, 20, 24, 64, 8, Swizzle::none);
    program.map(map);
    program.dynamic_shared = 2048;
    program.run_all(
        kOne, kOne,
        [&, x = x, y = y] {
          for (int row = 0; row < 8; ++row) {
            for (int column = 0; column < 64; ++column) {
              const bool inside = row + y >= 0 && row + y < 20 && column + x >= 0 && column + x < 20;
              EXPECT_EQ(out[static_cast<size_t>(row * 64 + column)],
                        inside ? in[static_cast<size_t>((row + y) * 24 + column + x)] : 0);
            }
          }
        },
        1);
  }
}

TEST(Tensor, StoresAndReducesOnlyInsideTheTensor) {
  for (const bool reduce : {false, true}) {
    std::vector<float> out(10 * 12, 1000), start = out;
    Program program(
        1,
        absl::StrCat(R"(
      mov.b32 %r2, d; mov.u32 %r0, %tid.x; shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r2; cvt.rn.f32.u32 %f1, %r0; st.shared.f32 [%r3], %f1;
      fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %r0, 0; @%p1 exit;
      )",
                     reduce ? "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group"
                            : "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
                     " [%rd100, {5, -1}], [%r2]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"),
        "", kDynamic, 1);
    program.buffer(out);
    TensorMap map;
    map.type = Type::f32;
    map.rank = 2;
    map.address = reinterpret_cast<uint64_t>(out.data());
    map.extent = {10, 9};
    map.stride = {4, 48};
    map.box = {8, 4};
    program.map(map);
    program.dynamic_shared = 256;
    program.run_all(kOne, {32, 1, 1}, [&] {
      for (int row = 0; row < 10; ++row) {
        for (int column = 0; column < 12; ++column) {
          const bool inside = row < 3 && column >= 5 && column < 10;
          const float value = static_cast<float>((row + 1) * 8 + column - 5);
          EXPECT_EQ(out[static_cast<size_t>(row * 12 + column)], inside ? value + (reduce ? 1000 : 0) : 1000)
              << row << " " << column;
        }
      }
      out = start;
    });
  }
}

TEST(Tensor, ThreeDimensionsAndBatches) {
  std::vector<uint16_t> in = random_halves(4 * 10 * 16), out(2 * 3 * 16);
  Program program(2, R"(
    mov.b32 %r2, d; .shared .align 8 .b64 bar; mov.b32 %r1, bar; mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 192;
    mov.b32 %r6, 3; cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%r2], [%rd100, {0, 8, %r6}], [%r1], %rd9;
    w: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra w;
    mov.b32 %r4, 0; more: add.u32 %r5, %r2, %r4; ld.shared.b64 %rd5, [%r5]; cvt.u64.u32 %rd6, %r4; add.s64 %rd6, %rd1, %rd6; st.global.b64 [%rd6], %rd5;
    add.u32 %r4, %r4, 8; setp.lt.u32 %p2, %r4, 192; @%p2 bra more;)",
                  "", kDynamic, 1);
  program.buffer(in);
  program.buffer(out);
  TensorMap map = tensor_2d(in, 16, 10, 16, 16, 3, Swizzle::none);
  map.rank = 3;
  map.extent[2] = 4;
  map.stride[2] = 10 * 16 * 2;
  map.box[2] = 2;
  program.map(map);
  program.dynamic_shared = 256;
  program.run_all(kOne, kOne, [&] {
    for (size_t b = 0; b < 2; ++b) {
      for (size_t row = 0; row < 3; ++row) {
        for (size_t column = 0; column < 16; ++column) {
          const bool inside = 3 + b < 4 && 8 + row < 10;
          EXPECT_EQ(out[(b * 3 + row) * 16 + column],
                    inside ? in[((3 + b) * 10 + 8 + row) * 16 + column] : 0);
        }
      }
    }
  });
}

TEST(Tensor, RefusesBadMapsAndMisalignedBoxes) {
  std::vector<uint16_t> in = random_halves(64 * 64), out(64 * 8);
  const auto why = [&](const std::string& body, const TensorMap& map) {
    Program program(2, body, "", kDynamic, 1);
    program.buffer(in);
    program.buffer(out);
    program.map(map);
    program.dynamic_shared = 2048;
    return std::string(program.run(kOne, kOne).message());
  };
  const TensorMap map = tensor_2d(in, 64, 64, 64, 64, 8, Swizzle::bytes128);
  EXPECT_THAT(why("add.s64 %rd100, %rd0, 63; and.b64 %rd100, %rd100, -64;" + load_box(1024, 0, 0, 0), map),
              HasSubstr("there is no tensor map at"));
  EXPECT_THAT(why(load_box(1024, 0, 0, 64), map), HasSubstr("multiple"));
  EXPECT_THAT(why(load_box(1024, 0, 0, 1152), map), HasSubstr("shared memory is"));
  TensorMap narrow = map;
  narrow.box[0] = 32;
  EXPECT_THAT(why(load_box(512, 0, 0, 0), narrow), HasSubstr("not modelled"));
  TensorMap beyond = map;
  beyond.extent[1] = 100;  // more rows than the memory has
  EXPECT_THAT(why(load_box(1024, 0, 60, 0), beyond), HasSubstr("illegal read"));
  // The copy has fewer bytes than the mbarrier expects, so the phase never completes.
  EXPECT_THAT(why(load_box(2048, 0, 0, 0), map), HasSubstr("1024 bytes missing"));
}

}  // namespace
}  // namespace lathe::ptx
