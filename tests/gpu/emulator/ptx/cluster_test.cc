// Clusters: barriers, distributed shared memory, arrivals and stores from other blocks.
#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

// Each block writes its number and reads its neighbour's number through distributed shared memory.
std::string exchange(bool first_barrier, bool second_barrier) {
  const std::string barrier = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
  return absl::StrCat(R"(
    .shared .align 4 .b32 word; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, %ctaid.x; add.u32 %r3, %r2, 500;
    st.shared.u32 [word], %r3;
)",
                      first_barrier ? barrier : "", R"(
    add.u32 %r4, %r0, 1; rem.u32 %r4, %r4, %r1; mov.b32 %r5, word; mapa.shared::cluster.u32 %r6, %r5, %r4; ld.shared::cluster.u32 %r7, [%r6];
    mul.wide.u32 %rd1, %r2, 4; add.s64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r7;
)",
                      second_barrier ? barrier : "");
}

TEST(Cluster, ReadsSharedMemoryOfOtherBlocks) {
  std::vector<uint32_t> out(12);
  const auto right = [&] {
    bool same = true;
    for (uint32_t i = 0; i < 12; ++i) same &= out[i] == i / 4 * 4 + (i + 1) % 4 + 500;
    std::fill(out.begin(), out.end(), 0);
    return same;
  };
  Program program(1, exchange(true, true));
  program.cluster = {4, 1, 1};
  program.buffer(out);
  program.run_all({12, 1, 1}, {1, 1, 1}, [&] { EXPECT_TRUE(right()); });
  // Without the first barrier the word may not be written yet; without the second the neighbour may have exited.
  for (const bool first : {false, true}) {
    Program broken(1, exchange(first, !first));
    broken.cluster = {4, 1, 1};
    broken.buffer(out);
    EXPECT_GE(broken.count_failures({12, 1, 1}, {1, 1, 1}, right), 16);
  }
}

TEST(Cluster, ReportsBarrierMisuse) {
  Program twice(0, "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;");
  twice.cluster = {2, 1, 1};
  EXPECT_THAT(std::string(twice.run({2, 1, 1}, {32, 1, 1}).message()), HasSubstr("twice"));
  Program alone(0, "barrier.cluster.wait.aligned;");
  alone.cluster = {2, 1, 1};
  EXPECT_THAT(std::string(alone.run({2, 1, 1}, {32, 1, 1}).message()), HasSubstr("without having arrived"));
  Program rank(0, ".shared .b32 w; mov.b32 %r1, w; mov.b32 %r2, 2; mapa.shared::cluster.u32 %r3, %r1, %r2;");
  rank.cluster = {2, 1, 1};
  EXPECT_THAT(std::string(rank.run({2, 1, 1}, {1, 1, 1}).message()), HasSubstr("no block of rank 2"));
}

// Every block sends one word and one arrival to block 0, with st.async or with a store and a remote arrive.
std::string gather(bool async) {
  const std::string send =
      async ? "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r8], %r9, [%r7];"
            : "st.shared::cluster.u32 [%r8], %r9; mbarrier.arrive.release.cluster.shared::cluster.b64 _, "
              "[%r7];";
  return absl::StrCat(R"(
    .shared .align 16 .b8 words[16]; .shared .align 8 .b64 bar; mov.u32 %r0, %cluster_ctarank; mov.b32 %r1, bar; mov.b32 %r2, words;
    mov.b32 %r3, )",
                      async ? 1 : 4,
                      R"(; mbarrier.init.shared.b64 [%r1], %r3; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    setp.eq.u32 %p1, %r0, 0; )",
                      async ? "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;" : "", R"(
    mapa.shared::cluster.u32 %r7, %r1, 0; mapa.shared::cluster.u32 %r8, %r2, 0; shl.b32 %r4, %r0, 2; add.u32 %r8, %r8, %r4;
    mul.lo.u32 %r9, %r0, 11; )",
                      send, R"(
    @!%p1 bra done;
    w: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra w;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2]; st.global.v4.u32 [%rd0], {%r10, %r11, %r12, %r13};
    done: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)");
}

TEST(Cluster, RemoteArrivalsAndStores) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async ? "st.async" : "remote arrive");
    std::vector<uint32_t> out(4);
    Program program(1, gather(async));
    program.cluster = {4, 1, 1};
    program.buffer(out);
    program.run_all({4, 1, 1}, {1, 1, 1}, [&] {
      EXPECT_EQ(out, (std::vector<uint32_t>{0, 11, 22, 33}));
      std::fill(out.begin(), out.end(), 0);
    });
  }
}

// One block's bulk copy writes to both blocks of the cluster, at the same offset, and signals both mbarriers.
TEST(Cluster, MulticastWritesEveryBlockOfTheMask) {
  std::vector<uint32_t> in(16), out(32);
  for (auto& word : in) word = static_cast<uint32_t>(test_random()());
  Program program(2, R"(
    .shared .align 128 .b8 s[64]; .shared .align 8 .b64 bar; mov.u32 %r0, %cluster_ctarank; mov.b32 %r1, bar; mov.b32 %r2, s; mov.u32 %r5, %tid.x;
    setp.eq.u32 %p3, %r5, 0; @%p3 mbarrier.init.shared.b64 [%r1], 1; @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 64;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    setp.eq.and.u32 %p1, %r0, 1, %p3; mov.b16 %h1, 3;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd0], 64, [%r1], %h1;
    w: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra w;
    shl.b32 %r6, %r5, 2; add.u32 %r2, %r2, %r6; ld.shared.u32 %r7, [%r2]; mad.lo.u32 %r8, %r0, 64, %r6; cvt.u64.u32 %rd2, %r8; add.s64 %rd2, %rd1, %rd2;
    st.global.u32 [%rd2], %r7; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)");
  program.cluster = {2, 1, 1};
  program.buffer(in);
  program.buffer(out);
  program.run_all({2, 1, 1}, {16, 1, 1}, [&] {
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[i % 16]);
    std::fill(out.begin(), out.end(), 0);
  });
}

}  // namespace
}  // namespace lathe::ptx
