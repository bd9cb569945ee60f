// Warps, barriers and blocks: which thread waits for which, and what is reported when the other never arrives.
#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

constexpr char kAddress[] = "mov.u32 %r0, %tid.x; mul.wide.u32 %rd10, %r0, 4; add.s64 %rd11, %rd0, %rd10;\n";

std::vector<uint32_t> run_warp(const std::string& body, uint32_t threads = 32) {
  std::vector<uint32_t> out(threads, 12345);
  Program program(1, kAddress + body + "st.global.u32 [%rd11], %r9;");
  program.buffer(out);
  const absl::Status status = program.run({1, 1, 1}, {threads, 1, 1});
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(Warp, Shuffles) {
  const auto up =
      run_warp("add.u32 %r1, %r0, 100; shfl.sync.up.b32 %r9|%p1, %r1, 3, 0, -1; @!%p1 mov.b32 %r9, 7;");
  const auto down =
      run_warp("add.u32 %r1, %r0, 100; shfl.sync.down.b32 %r9|%p1, %r1, 5, 31, -1; @!%p1 mov.b32 %r9, 7;");
  const auto bfly = run_warp("add.u32 %r1, %r0, 100; shfl.sync.bfly.b32 %r9, %r1, 6, 31, -1;");
  const auto index =
      run_warp("add.u32 %r1, %r0, 100; xor.b32 %r2, %r0, 21; shfl.sync.idx.b32 %r9, %r1, %r2, 31, -1;");
  // Segments of eight lanes: c = (32 - 8) << 8 | 31.
  const auto segments = run_warp("add.u32 %r1, %r0, 100; shfl.sync.idx.b32 %r9, %r1, 2, 0x181F, -1;");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(up[lane], lane >= 3 ? lane + 97 : 7);
    EXPECT_EQ(down[lane], lane + 5 <= 31 ? lane + 105 : 7);
    EXPECT_EQ(bfly[lane], (lane ^ 6) + 100);
    EXPECT_EQ(index[lane], (lane ^ 21) + 100);
    EXPECT_EQ(segments[lane], lane / 8 * 8 + 102);
  }
}

TEST(Warp, VotesMatchesAndReductions) {
  const auto ballot =
      run_warp("and.b32 %r1, %r0, 3; setp.eq.u32 %p1, %r1, 1; vote.sync.ballot.b32 %r9, %p1, -1;");
  const auto all = run_warp(
      "setp.lt.u32 %p1, %r0, 31; vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, !%p1, -1; selp.b32 "
      "%r9, 1, 0, %p2; @%p3 add.u32 %r9, %r9, 2;");
  const auto match = run_warp("shr.u32 %r1, %r0, 2; match.any.sync.b32 %r9, %r1, -1;");
  const auto least = run_warp("sub.s32 %r1, 10, %r0; redux.sync.min.s32 %r9, %r1, -1;");
  const auto sum = run_warp("redux.sync.add.u32 %r9, %r0, -1;");
  const auto half = run_warp(
      "setp.gt.u32 %p1, %r0, 15; @%p1 bra high; redux.sync.max.u32 %r9, %r0, 0xFFFF; bra done; high: "
      "redux.sync.min.u32 %r9, %r0, 0xFFFF0000; done:");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(ballot[lane], 0x22222222u);
    EXPECT_EQ(all[lane], 2u);
    EXPECT_EQ(match[lane], 15u << (lane / 4 * 4));
    EXPECT_EQ(static_cast<int32_t>(least[lane]), -21);
    EXPECT_EQ(sum[lane], 496u);
    EXPECT_EQ(half[lane], lane > 15 ? 16u : 15u);
  }
}

TEST(Warp, AlwaysElectsTheSameLane) {
  const auto out = run_warp(
      "elect.sync _|%p1, -1; elect.sync %r1|%p2, -1; selp.b32 %r9, 1, 0, %p1; @%p2 add.u32 %r9, %r9, 2; "
      "shl.b32 %r1, %r1, 8; or.b32 %r9, %r9, %r1;");
  uint32_t leaders = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane] >> 8, out[0] >> 8);
    EXPECT_EQ(out[lane] & 3, lane == out[0] >> 8 ? 3u : 0u);
    leaders += out[lane] & 1;
  }
  EXPECT_EQ(leaders, 1u);
}

TEST(Warp, ExitedLanesNeedNotArrive) {
  const auto out =
      run_warp("mov.b32 %r9, 0; setp.gt.u32 %p1, %r0, 7; @%p1 exit; redux.sync.add.u32 %r9, %r0, -1;");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], lane < 8 ? 28u : 12345u);
}

TEST(Warp, ReportsDeadlockOfMissingLane) {
  Program program(0,
                  "mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 5; @%p1 bar.sync 0;\nredux.sync.add.u32 %r9, "
                  "%r0, -1;\n@!%p1 bar.sync 0;");
  const absl::Status status = program.run();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  for (const char* part : {"deadlock", "threads 5 to 5: waits at a barrier, ptx line 8",
                           "threads 6 to 31: waits for lanes of its warp, ptx line 9"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(Warp, RefusesMaskWithoutTheExecutingLane) {
  Program program(0, "redux.sync.add.u32 %r9, %r0, 1;");
  EXPECT_EQ(program.run().code(), absl::StatusCode::kAborted);
}

// Each thread writes to shared memory and reads the mirrored place; without the barrier it may be unwritten.
std::string reversal(bool with_barrier) {
  return absl::StrCat(
      kAddress, R"(
    .shared .align 4 .b8 s[1024]; mov.b32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %r0;)",
      with_barrier ? "bar.sync 0;" : "",
      "sub.u32 %r4, 1020, %r2; add.u32 %r4, %r1, %r4; ld.shared.u32 %r9, [%r4]; st.global.u32 [%rd11], %r9;");
}

TEST(Barrier, OrdersSharedMemory) {
  std::vector<uint32_t> out(256);
  const auto reversed = [&] {
    for (uint32_t i = 0; i < 256; ++i) {
      if (out[i] != 255 - i) return false;
    }
    return true;
  };
  Program with(1, reversal(true));
  with.buffer(out);
  with.run_all({1, 1, 1}, {256, 1, 1}, [&] { EXPECT_TRUE(reversed()); });
  Program without(1, reversal(false));
  without.buffer(out);
  EXPECT_EQ(without.count_failures({1, 1, 1}, {256, 1, 1}, reversed, 4), 12);
}

TEST(Barrier, NamedBarriersCountThreads) {
  // Two warps produce and arrive without waiting; two warps consume.
  std::vector<uint32_t> out(128, 0);
  Program program(1, absl::StrCat(kAddress, R"(
    .shared .align 4 .b8 s[256]; mov.b32 %r1, s; and.b32 %r2, %r0, 63; shl.b32 %r2, %r2, 2; add.u32 %r2, %r1, %r2;
    setp.gt.u32 %p1, %r0, 63; @%p1 bra consumer;
    add.u32 %r3, %r0, 1000; st.shared.u32 [%r2], %r3; bar.arrive 3, 128; bra done;
    consumer: bar.sync 3, 128; ld.shared.u32 %r9, [%r2]; st.global.u32 [%rd11], %r9;
    done:)"));
  program.buffer(out);
  program.run_all({1, 1, 1}, {128, 1, 1}, [&] {
    for (uint32_t i = 64; i < 128; ++i) EXPECT_EQ(out[i], i - 64 + 1000);
  });
  Program wrong(0,
                "mov.u32 %r0, %tid.x; setp.gt.u32 %p1, %r0, 31; @%p1 bar.sync 1, 64; @!%p1 bar.sync 1, 96;");
  EXPECT_THAT(std::string(wrong.run({1, 1, 1}, {96, 1, 1}).message()),
              HasSubstr("is used with a thread count of"));
}

TEST(Barrier, Reduces) {
  std::vector<uint32_t> out(96, 0);
  Program program(
      1, absl::StrCat(kAddress,
                      "setp.lt.u32 %p1, %r0, 70; bar.red.popc.u32 %r9, 0, %p1; st.global.u32 [%rd11], %r9;"));
  program.buffer(out);
  program.run_all({1, 1, 1}, {96, 1, 1}, [&] { EXPECT_THAT(out, ::testing::Each(70u)); });
}

TEST(Barrier, ReportsDeadlockOfMissingThread) {
  Program program(0, "mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 3; @%p1 bar.sync 1; bar.sync 0;");
  const absl::Status status = program.run({1, 1, 1}, {64, 1, 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("threads 3 to 3: waits at a barrier"));
}

// The last block to take a ticket sums what all blocks stored. This must work in any order of the blocks.
TEST(Grid, LastBlockSeesAllPartialSums) {
  std::vector<uint32_t> out(66, 0);
  Program program(1, R"(
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd0, %rd1;
    add.u32 %r3, %r1, 1; st.global.u32 [%rd1+8], %r3; membar.gl;
    sub.u32 %r4, %r2, 1; atom.global.inc.u32 %r5, [%rd0], %r4; setp.ne.u32 %p1, %r5, %r4; @%p1 exit;
    membar.gl; mov.b32 %r6, 0; mov.b32 %r7, 0;
    more: mul.wide.u32 %rd2, %r6, 4; add.s64 %rd2, %rd0, %rd2; ld.volatile.global.u32 %r8, [%rd2+8]; add.u32 %r7, %r7, %r8;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r2; @%p1 bra more; st.global.u32 [%rd0+4], %r7;)");
  program.buffer(out);
  program.run_all({64, 1, 1}, {1, 1, 1}, [&] {
    EXPECT_EQ(out[1], 64u * 65 / 2);
    EXPECT_EQ(out[0], 0u);  // the ticket resets itself
    std::fill(out.begin(), out.end(), 0);
  });
}

// All blocks wait at a counter, which requires all of them to be resident.
TEST(Grid, RunsBlocksThatWaitForEachOther) {
  std::vector<uint32_t> out(1, 0);
  const char* body = R"(
    mov.u32 %r2, %nctaid.x; atom.global.add.u32 %r5, [%rd0], 1;
    spin: ld.acquire.gpu.global.u32 %r6, [%rd0]; setp.lt.u32 %p1, %r6, %r2; @%p1 bra spin;)";
  Program program(1, body);
  program.buffer(out);
  const absl::Status status = program.run({120, 1, 1}, {1, 1, 1});
  EXPECT_TRUE(status.ok()) << status;
  // A flag that nobody sets.
  Program forever(1, "spin: ld.volatile.global.u32 %r6, [%rd0]; setp.ne.u32 %p1, %r6, 77; @%p1 bra spin;");
  forever.buffer(out);
  forever.options.patience = 1 << 22;
  EXPECT_THAT(std::string(forever.run({1, 1, 1}, {1, 1, 1}).message()), HasSubstr("livelock"));
}

}  // namespace
}  // namespace lathe::ptx
