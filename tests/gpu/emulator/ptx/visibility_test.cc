// Which stores of another block a block sees: a missing fence must show, and a correct fence must work.
#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

constexpr uint32_t kBlocks = 12, kThreads = 64;
constexpr uint32_t kSum = kBlocks * kThreads * (kBlocks * kThreads + 1) / 2;

// Every thread stores a partial sum; the last block to take a ticket adds them up.
struct Ticket {
  std::string release = "membar.gl;", acquire = "membar.gl;";
  std::string store = "st.global.u32", load = "ld.global.u32", take = "atom.global.inc.u32";
  bool barrier = true;        // between the stores and the fence of the thread that takes the ticket
  bool every_thread = false;  // all threads execute the release fence, not only that of the ticket

  std::string body() const {
    const std::string one =
        absl::StrCat(every_thread ? release : "", barrier ? " bar.sync 0;" : "",
                     "setp.ne.u32 %p1, %r0, 0; @%p1 bra joined;", every_thread ? "" : release);
    return absl::StrCat(R"(
    .shared .align 4 .b8 s[4]; mov.b32 %r9, s;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r1, %r3, %r0; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd2, %rd0, %rd2;
    add.u32 %r5, %r4, 1; )",
                        store, " [%rd2+8], %r5;\n", one, "sub.u32 %r6, %r2, 1;\n", take,
                        " %r7, [%rd0], %r6;\n", acquire, R"(
    st.shared.u32 [%r9], %r7;
    joined: bar.sync 0; sub.u32 %r6, %r2, 1; ld.shared.u32 %r7, [%r9]; setp.ne.u32 %p2, %r7, %r6; @%p2 exit;
    setp.ne.u32 %p1, %r0, 0; @%p1 exit;
    mul.lo.u32 %r10, %r2, %r3; mov.b32 %r11, 0; mov.b32 %r12, 0;
    more: mul.wide.u32 %rd3, %r11, 4; add.s64 %rd3, %rd0, %rd3; )",
                        load, R"( %r13, [%rd3+8]; add.u32 %r12, %r12, %r13;
    add.u32 %r11, %r11, 1; setp.lt.u32 %p3, %r11, %r10; @%p3 bra more; st.global.u32 [%rd0+4], %r12;)");
  }

  // The number of launches (of 16 for each policy: late, early, random) with a wrong sum.
  std::array<int, 3> wrong(std::array<uint32_t, 3> cluster = {0, 0, 0}) const {
    std::vector<uint32_t> memory(2 + kBlocks * kThreads);
    Program program(1, body());
    program.buffer(memory);
    program.cluster = cluster;
    std::array<int, 3> counts = {0, 0, 0};
    for (const AsyncPolicy policy : {AsyncPolicy::late, AsyncPolicy::early, AsyncPolicy::random}) {
      for (uint64_t seed = 0; seed < 16; ++seed) {
        std::fill(memory.begin(), memory.end(), 0);
        program.options.async = policy;
        program.options.seed = seed;
        const absl::Status status = program.run({kBlocks, 1, 1}, {kThreads, 1, 1});
        EXPECT_TRUE(status.ok()) << status;
        counts[static_cast<size_t>(policy)] += memory[1] != kSum;
      }
    }
    return counts;
  }
};

constexpr std::array<int, 3> kNever = {0, 0, 0};

TEST(Visibility, FencesBeforeAndAfterTheTicketSuffice) {
  EXPECT_EQ(Ticket().wrong(), kNever);
  Ticket every;
  every.every_thread = true;
  EXPECT_EQ(every.wrong(), kNever);
  Ticket modern;
  modern.release = modern.acquire = "fence.acq_rel.gpu;";
  EXPECT_EQ(modern.wrong(), kNever);
}

TEST(Visibility, AcquireReleaseTicketNeedsNoFence) {
  Ticket ticket;
  ticket.release = ticket.acquire = "";
  ticket.take = "atom.acq_rel.gpu.global.inc.u32";
  EXPECT_EQ(ticket.wrong(), kNever);
}

TEST(Visibility, ExposesMissingRelease) {
  Ticket ticket;
  ticket.release = "";
  const auto wrong = ticket.wrong();
  EXPECT_GE(wrong[0], 6);
  EXPECT_GE(wrong[2], 4);
  ticket.take = "atom.acquire.gpu.global.inc.u32";
  EXPECT_GE(ticket.wrong()[0], 6);
}

TEST(Visibility, ExposesMissingAcquire) {
  Ticket ticket;
  ticket.acquire = "";
  const auto wrong = ticket.wrong();
  EXPECT_GE(wrong[0], 6);
  EXPECT_GE(wrong[2], 4);
  ticket.take = "atom.release.gpu.global.inc.u32";
  EXPECT_GE(ticket.wrong()[0], 6);
}

TEST(Visibility, ExposesFencesOfBlockOrClusterScope) {
  for (const char* fence : {"membar.cta;", "fence.acq_rel.cta;", "fence.acq_rel.cluster;"}) {
    Ticket ticket;
    ticket.release = fence;
    EXPECT_GE(ticket.wrong()[0], 6) << fence;
    Ticket other;
    other.acquire = fence;
    EXPECT_GE(other.wrong()[0], 6) << fence;
  }
}

TEST(Visibility, ExposesMissingBarrierBeforeTheFence) {
  Ticket ticket;
  ticket.barrier = false;
  const auto wrong = ticket.wrong();
  EXPECT_GE(wrong[0], 12);
}

// Relaxed accesses at gpu scope go to memory directly, so the sum is right without any fence.
TEST(Visibility, RelaxedAccessesSeeEachOther) {
  Ticket ticket;
  ticket.release = ticket.acquire = "";
  ticket.store = "st.relaxed.gpu.global.u32";
  ticket.load = "ld.relaxed.gpu.global.u32";
  EXPECT_EQ(ticket.wrong(), kNever);
  ticket.load = "ld.global.u32";  // no stale value exists, because the relaxed stores left none
  EXPECT_EQ(ticket.wrong(), kNever);
  ticket.store = "st.relaxed.cta.global.u32";
  EXPECT_GE(ticket.wrong()[0], 6);
}

TEST(Visibility, ClustersNeedTheFenceToo) {
  EXPECT_EQ(Ticket().wrong({4, 1, 1}), kNever);
  Ticket ticket;
  ticket.release = ticket.acquire = "";
  ticket.take = "atom.acquire.gpu.global.inc.u32";
  EXPECT_GE(ticket.wrong({4, 1, 1})[0], 6);
}

// A block that stores and then loads sees its own values, in every width.
TEST(Visibility, BlockSeesItsOwnStores) {
  std::vector<uint32_t> memory(256, 0);
  Program program(1, R"(
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 16; add.s64 %rd1, %rd0, %rd1;
    add.u32 %r1, %r0, 100; st.global.u32 [%rd1+4], %r1;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1]; add.u32 %r2, %r3, %r2;
    st.global.v2.u32 [%rd1+8], {%r2, %r3};
    cvt.u16.u32 %h1, %r0; st.global.u16 [%rd1+10], %h1; ld.global.v2.u32 {%r6, %r7}, [%rd1+8];
    atom.global.add.u32 %r8, [%rd1+8], 1; ld.global.u32 %r9, [%rd1+8]; st.global.u32 [%rd1], %r9;)");
  program.buffer(memory);
  program.run_all({1, 1, 1}, {64, 1, 1}, [&] {
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t mixed = (i << 16 | (i + 100)) + 1;
      EXPECT_EQ(memory[i * 4 + 1], i + 100);
      EXPECT_EQ(memory[i * 4 + 2], mixed);
      EXPECT_EQ(memory[i * 4 + 3], i + 100);
      EXPECT_EQ(memory[i * 4], mixed);
    }
    std::fill(memory.begin(), memory.end(), 0);
  });
}

// A flag that is stored and polled with weak accesses may be seen late, but it is seen.
TEST(Visibility, WeakStoresBecomeVisibleEventually) {
  std::vector<uint32_t> memory(2, 0);
  Program program(1, R"(
    mov.u32 %r0, %ctaid.x; setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%rd0], 7; @%p1 exit;
    spin: ld.global.u32 %r1, [%rd0]; setp.ne.u32 %p2, %r1, 7; @%p2 bra spin; st.global.u32 [%rd0+4], 8;)");
  program.buffer(memory);
  program.options.async = AsyncPolicy::late;
  const absl::Status status = program.run({2, 1, 1}, {1, 1, 1});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(memory, ::testing::ElementsAre(7u, 8u));
}

// More stores and replaced lines than the emulator keeps: the oldest become visible early, none is lost.
TEST(Visibility, LosesNoStoreBeyondItsCapacity) {
  constexpr uint32_t kWords = 1 << 20;
  std::vector<uint32_t> memory(kWords, 0);
  Program program(1, R"(
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 256, %r0; mul.wide.u32 %rd1, %r2, 64;
    add.s64 %rd1, %rd0, %rd1; mov.b32 %r3, 0;
    more: st.global.u32 [%rd1], %r2; add.s64 %rd1, %rd1, 4; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 16;
    @%p1 bra more; membar.gl;)");
  program.buffer(memory);
  program.options.async = AsyncPolicy::late;
  const absl::Status status = program.run({kWords / 16 / 256, 1, 1}, {256, 1, 1});
  EXPECT_TRUE(status.ok()) << status;
  for (uint32_t i = 0; i < kWords; ++i) ASSERT_EQ(memory[i], i / 16);
}

}  // namespace
}  // namespace lathe::ptx
