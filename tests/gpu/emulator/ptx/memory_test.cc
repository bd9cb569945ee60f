// Accesses that the hardware refuses, and reads of uninitialised memory.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

absl::Status run_one(Program& program) { return program.run({1, 1, 1}, {1, 1, 1}); }

TEST(Memory, NamesThePlaceOfAnOutOfBoundsAccess) {
  std::vector<float> values(16);
  Program program(1, "mov.f32 %f1, 0f3F800000;\nst.global.f32 [%rd0+64], %f1;");
  program.buffer(values, "the values");
  const absl::Status status = run_one(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  for (const char* part : {"kernel k", "block (0, 0, 0)", "thread (0, 0, 0)", "ptx line 10",
                           "0 bytes past the end of the values", "st.global.f32"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(Memory, RefusesAccessAcrossTwoAllocations) {
  std::vector<float> values(17);
  Program before(1, "ld.global.f32 %f1, [%rd0+-4];");
  before.buffer(values);
  EXPECT_EQ(run_one(before).code(), absl::StatusCode::kOutOfRange);
  Program across(
      1,
      "add.s64 %rd1, %rd0, 15; and.b64 %rd1, %rd1, -16; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+48];");
  across.buffer(values);
  EXPECT_EQ(run_one(across).ok(), reinterpret_cast<uint64_t>(values.data()) % 16 == 0);
}

TEST(Memory, RefusesMisalignedVector) {
  std::vector<float> values(32);
  Program program(
      1, "add.s64 %rd1, %rd0, 15; and.b64 %rd1, %rd1, -16; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+8];");
  program.buffer(values);
  EXPECT_EQ(run_one(program).code(), absl::StatusCode::kFailedPrecondition);
  Program shared(0, ".shared .align 16 .b8 s[64]; mov.b32 %r1, s; ld.shared.b64 %rd1, [%r1+4];");
  EXPECT_EQ(run_one(shared).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Memory, RefusesAccessBeyondDeclaredSharedMemory) {
  Program inside(0, ".shared .align 4 .b8 s[64]; mov.b32 %r1, s; st.shared.b32 [%r1+60], %r1;");
  EXPECT_TRUE(run_one(inside).ok());
  Program outside(0, ".shared .align 4 .b8 s[64]; mov.b32 %r1, s; st.shared.b32 [%r1+64], %r1;");
  EXPECT_EQ(run_one(outside).code(), absl::StatusCode::kOutOfRange);
  Program reserved(0, ".shared .align 4 .b8 s[64]; mov.b32 %r1, 0; st.shared.b32 [%r1], %r1;");
  EXPECT_EQ(run_one(reserved).code(), absl::StatusCode::kOutOfRange);
  Program dynamic(0, "mov.b32 %r1, d; st.shared.b32 [%r1+124], %r1;", "",
                  ".extern .shared .align 128 .b8 d[];");
  dynamic.dynamic_shared = 124;
  EXPECT_EQ(run_one(dynamic).code(), absl::StatusCode::kOutOfRange);
  dynamic.dynamic_shared = 128;
  EXPECT_TRUE(run_one(dynamic).ok());
}

TEST(Memory, UnwrittenSharedMemoryIsNan) {
  std::vector<float> out(1, 1);
  Program program(1, ".shared .align 4 .b8 s[64]; ld.shared.f32 %f1, [s+8]; st.global.f32 [%rd0], %f1;");
  program.buffer(out);
  ASSERT_TRUE(run_one(program).ok());
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST(Memory, GenericAddressesSelectTheirSpace) {
  std::vector<uint32_t> out(8, 0);
  Program program(1, R"(
    .shared .align 4 .b8 s[64]; .local .align 8 .b8 depot[16];
    mov.b64 %rd1, s; cvta.shared.u64 %rd2, %rd1; mov.b32 %r1, 77; st.b32 [%rd2+4], %r1; ld.shared.b32 %r2, [s+4];
    st.global.u32 [%rd0], %r2;
    mov.b64 %rd3, depot; cvta.local.u64 %rd4, %rd3; mov.b32 %r1, 88; st.local.b32 [depot+8], %r1; ld.b32 %r2, [%rd4+8];
    st.global.u32 [%rd0+4], %r2;
    isspacep.shared %p1, %rd2; isspacep.global %p2, %rd2; isspacep.global %p3, %rd0; isspacep.local %p4, %rd4;
    selp.b32 %r3, 1, 0, %p1; @%p2 add.u32 %r3, %r3, 2; @%p3 add.u32 %r3, %r3, 4; @%p4 add.u32 %r3, %r3, 8;
    st.global.u32 [%rd0+8], %r3;
    cvta.to.shared.u64 %rd5, %rd2; sub.s64 %rd5, %rd5, %rd1; st.global.u32 [%rd0+12], %rd5;
    mov.b64 %rd6, p0; cvta.param.u64 %rd6, %rd6; ld.u64 %rd7, [%rd6]; setp.eq.s64 %p5, %rd7, %rd0; selp.b32 %r4, 1, 0, %p5;
    st.global.u32 [%rd0+16], %r4;)");
  program.buffer(out);
  const absl::Status status = run_one(program);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0], 77u);
  EXPECT_EQ(out[1], 88u);
  EXPECT_EQ(out[2], 13u);
  EXPECT_EQ(out[3], 0u);
  EXPECT_EQ(out[4], 1u);
}

TEST(Memory, VectorsAndNarrowTypes) {
  std::vector<uint8_t> in(64), out(64);
  for (auto& byte : in) byte = static_cast<uint8_t>(random_int(0, 255));
  Program program(2, R"(
    add.s64 %rd2, %rd0, 15; and.b64 %rd2, %rd2, -16; add.s64 %rd3, %rd1, 15; and.b64 %rd3, %rd3, -16;
    ld.global.nc.L1::no_allocate.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2]; st.global.v4.b32 [%rd3], {%r4, %r3, %r2, %r1};
    ld.global.s8 %r1, [%rd2+16]; st.global.b32 [%rd3+16], %r1;
    ld.global.u16 %r1, [%rd2+18]; st.global.b32 [%rd3+20], %r1;
    ld.global.v2.b64 {%rd4, _}, [%rd2+16]; st.global.b64 [%rd3+24], %rd4;)");
  program.buffer(in);
  program.buffer(out);
  const absl::Status status = run_one(program);
  ASSERT_TRUE(status.ok()) << status;
  const auto aligned = [](std::vector<uint8_t>& v) {
    return v.data() + (16 - reinterpret_cast<uint64_t>(v.data()) % 16) % 16;
  };
  const uint8_t *from = aligned(in), *to = aligned(out);
  for (int word = 0; word < 4; ++word) EXPECT_EQ(std::memcmp(from + 4 * word, to + 4 * (3 - word), 4), 0);
  int32_t extended;
  std::memcpy(&extended, to + 16, 4);
  EXPECT_EQ(extended, static_cast<int8_t>(from[16]));
  std::memcpy(&extended, to + 20, 4);
  EXPECT_EQ(extended, from[18] | from[19] << 8);
  EXPECT_EQ(std::memcmp(from + 16, to + 24, 8), 0);
}

TEST(Memory, AtomicsOfManyThreads) {
  std::vector<uint32_t> out(8, 0);
  out[2] = 0xffffffff;
  Program program(1, R"(
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 64, %r1;
    red.global.add.u32 [%rd0], %r1;
    atom.global.max.u32 %r3, [%rd0+4], %r1;
    atom.global.and.b32 %r3, [%rd0+8], 0xFFFFFF0F;
    atom.acq_rel.gpu.global.inc.u32 %r3, [%rd0+12], 4;
    again: ld.relaxed.gpu.global.u32 %r4, [%rd0+16]; add.u32 %r5, %r4, 2;
    atom.global.cas.b32 %r6, [%rd0+16], %r4, %r5; setp.ne.u32 %p1, %r6, %r4; @%p1 bra again;
    mov.f32 %f1, 0f3F000000; red.global.add.f32 [%rd0+20], %f1;
    mov.b32 %r7, 0x3C003800; red.global.add.noftz.f16x2 [%rd0+24], %r7;)");
  program.buffer(out);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::fill(out.begin(), out.end(), 0);
    out[2] = 0xffffffff;
    program.options.seed = seed;
    const absl::Status status = program.run({3, 1, 1}, {64, 1, 1});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out[0], 191u * 192 / 2);
    EXPECT_EQ(out[1], 191u);
    EXPECT_EQ(out[2], 0xffffff0fu);
    EXPECT_EQ(out[3], 192u % 5);
    EXPECT_EQ(out[4], 384u);
    float sum;
    std::memcpy(&sum, &out[5], 4);
    EXPECT_EQ(sum, 96);
    EXPECT_EQ(out[6], 0x5a005600u);  // 192 and 96
  }
}

// ptxas 13.0 converts the sum to an integer and stores its low byte.
TEST(Memory, RefusesStoreOfPartOfAFloat) {
  const std::string sum = "add.rn.f32 %f1, %f2, %f3; mov.b32 %r1, %f1; add.rn.f32 %r2, %r3, %r4; ";
  for (const char* store : {"st.global.b8 [%rd0], %r2;", "st.global.b16 [%rd0], %r2;"}) {
    std::vector<float> values(1);
    Program program(1, sum + store);
    EXPECT_THAT(std::string(program.parse_status().message()),
                HasSubstr("ptxas would convert it to an integer"))
        << store;
  }
  // Accepted: storing the whole float, or a part of the result of an integer or bit instruction.
  for (const char* store : {"st.global.b32 [%rd0], %r2;", "mov.b32 %r5, %r2; st.global.b8 [%rd0], %r5;",
                            "shr.u32 %r5, %r2, 8; st.global.b8 [%rd0], %r5;"}) {
    Program program(1, sum + store);
    EXPECT_TRUE(program.parse_status().ok()) << program.parse_status();
  }
}

// A linker places dynamic shared memory right behind static shared memory; ptxas keeps its declared alignment.
TEST(Memory, LinkersIgnoreTheAlignmentOfDynamicShared) {
  constexpr char kText[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 1024 .b8 d[];\n.visible .entry "
      "k() {\n"
      ".reg .b32 %r<4>; .shared .align 4 .b32 s; mov.b32 %r1, s; mov.b32 %r2, d; ret; }\n";
  for (const bool linked : {false, true}) {
    const auto module = Module::parse(kText, linked);
    ASSERT_TRUE(module.ok()) << module.status();
    const Kernel& kernel = *(*module)->kernels().front();
    EXPECT_EQ(kernel.static_shared, kSharedBase + 4);
    EXPECT_EQ(kernel.dynamic_align, linked ? 16u : 1024u);
  }
}

}  // namespace
}  // namespace lathe::ptx
