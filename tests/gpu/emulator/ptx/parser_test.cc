// What the parser accepts and refuses.
#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& body, const std::string& directives = "") {
  const Program program(1, body, directives);
  EXPECT_FALSE(program.parse_status().ok()) << body;
  return std::string(program.parse_status().message());
}

TEST(Parser, NamesLineOfUnknownInstruction) {
  const std::string why = refusal("add.u32 %r1, %r2, %r3;\nfrobnicate.b32 %r1, %r2;");
  EXPECT_THAT(why, HasSubstr("ptx line 10"));
  EXPECT_THAT(why, HasSubstr("frobnicate"));
}

TEST(Parser, RefusesUnknownModifiersAndOperands) {
  EXPECT_THAT(refusal("add.u32.slowly %r1, %r2, %r3;"), HasSubstr(".slowly"));
  EXPECT_THAT(refusal("add.u32 %r1, %r2, %r3, %r4;"), HasSubstr("operand 4"));
  EXPECT_THAT(refusal("add.u32 %r1, %r2;"), HasSubstr("operand 3 is missing"));
  EXPECT_THAT(refusal("bra nowhere;"), HasSubstr("nowhere"));
  EXPECT_THAT(refusal("mov.b32 %r1, %undeclared;"), HasSubstr("%undeclared"));
  EXPECT_THAT(refusal("@%r1 mov.b32 %r1, 1;"), HasSubstr("not a predicate"));
  EXPECT_THAT(refusal(".reg .b32 x; .reg .b32 x;"), HasSubstr("twice"));
  EXPECT_THAT(refusal("here: here: ret;"), HasSubstr("twice"));
  EXPECT_THAT(refusal("call (%r1), f, (%r2);"), HasSubstr("unexpected"));
  EXPECT_THAT(refusal("cvt.f16.f32 %h1, %f1;"), HasSubstr("rounding"));
  EXPECT_THAT(refusal("setmaxnreg.dec.sync.aligned.u32 24;"), HasSubstr("reqntid"));
  EXPECT_THAT(refusal("setmaxnreg.dec.sync.aligned.u32 25;", ".reqntid 128"), HasSubstr("steps of 8"));
  EXPECT_THAT(refusal("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, "
                      "{%r0,%r1}, {%f0,%f1,%f2,%f3};"),
              HasSubstr("operand 2 has 2 registers, not 4"));
}

TEST(Parser, LabelsAndRegistersHaveScopes) {
  std::vector<int> out(1, 0);
  Program program(1, R"(
    mov.b32 %r1, 1;
    { .reg .b32 x; mov.b32 x, 10; bra inner; add.u32 %r1, %r1, 100; inner: add.u32 %r1, %r1, x; }
    { .reg .b32 x; mov.b32 x, 20; bra inner; add.u32 %r1, %r1, 100; inner: add.u32 %r1, %r1, x; bra.uni outer; }
    add.u32 %r1, %r1, 100;
    outer: st.global.u32 [%rd0], %r1;)");
  program.buffer(out);
  const absl::Status status = program.run({1, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0], 31);
}

TEST(Parser, ReadsNumbersAsWritten) {
  std::vector<uint64_t> out(8, 0);
  Program program(1, R"(
    mov.b64 %rd1, -2;                 st.global.u64 [%rd0], %rd1;
    mov.b64 %rd1, 0xFFFFFFFFFFFFFFF0; st.global.u64 [%rd0+8], %rd1;
    mov.b64 %rd1, 017;                st.global.u64 [%rd0+16], %rd1;
    mov.b64 %rd1, 0b101U;             st.global.u64 [%rd0+24], %rd1;
    mov.f32 %f1, 0f3FC00000;          st.global.f32 [%rd0+32], %f1;
    mov.f64 %rd1, 0d3FF8000000000000; st.global.f64 [%rd0+40], %rd1;
    mov.f32 %f1, -2.5e-1;             st.global.f32 [%rd0+48], %f1;
    add.s64 %rd2, %rd0, 64; mov.b64 %rd1, 5; st.global.u64 [%rd2+-8], %rd1;)");
  program.buffer(out);
  const absl::Status status = program.run({1, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(status.ok()) << status;
  const auto f32 = [](uint64_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  };
  const auto f64 = [](uint64_t bits) {
    double f;
    std::memcpy(&f, &bits, 8);
    return f;
  };
  EXPECT_EQ(out[0], static_cast<uint64_t>(-2));
  EXPECT_EQ(out[1], 0xFFFFFFFFFFFFFFF0);
  EXPECT_EQ(out[2], 15u);
  EXPECT_EQ(out[3], 5u);
  EXPECT_EQ(f32(out[4]), 1.5f);
  EXPECT_EQ(f64(out[5]), 1.5);
  EXPECT_EQ(f32(out[6]), -0.25f);
  EXPECT_EQ(out[7], 5u);
}

TEST(Parser, BranchTablesAndGlobals) {
  std::vector<int> out(4, 0);
  Program program(1, R"(
    mov.u32 %r1, %tid.x;
    table: .branchtargets a, b, a, c;
    brx.idx %r1, table;
    a: mov.b32 %r2, 10; bra done;
    b: mov.b32 %r2, 20; bra done;
    c: mov.b64 %rd3, values; ld.global.u32 %r2, [%rd3+8];
    done: mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd0, %rd2; st.global.u32 [%rd2], %r2;)",
                  "", ".global .align 4 .u32 values[4] = {1, 2, 30, 4};");
  program.buffer(out);
  const absl::Status status = program.run({1, 1, 1}, {4, 1, 1});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out, (std::vector<int>{10, 20, 10, 30}));
}

TEST(Parser, ChecksLaunchBounds) {
  Program program(0, "", ".reqntid 64, 1, 1");
  EXPECT_THAT(std::string(program.run({1, 1, 1}, {32, 1, 1}).message()), HasSubstr("reqntid"));
  EXPECT_TRUE(program.run({1, 1, 1}, {64, 1, 1}).ok());
  program.dynamic_shared = 300000;
  EXPECT_EQ(program.run({1, 1, 1}, {64, 1, 1}).code(), absl::StatusCode::kInvalidArgument);
  Program clusters(0, "");
  clusters.cluster = {2, 1, 1};
  EXPECT_THAT(std::string(clusters.run({3, 1, 1}, {32, 1, 1}).message()),
              HasSubstr("multiple of the cluster"));
}

}  // namespace
}  // namespace lathe::ptx
