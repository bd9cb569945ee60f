// Asynchronous copies: cp.async groups, mbarriers and bulk copies. Every missing wait must be detected.
#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

constexpr std::array<uint32_t, 3> kOne = {1, 1, 1};

std::vector<uint32_t> random_words(size_t count) {
  std::vector<uint32_t> words(count + 4);
  for (auto& word : words) word = static_cast<uint32_t>(test_random()()) & 0x7fffffff;
  return words;
}

// Copies need buffers that are aligned to 16 bytes; those of std::vector are.
static_assert(alignof(std::max_align_t) >= 16);

// Each of 32 threads copies 16 bytes into shared memory, executes `wait`, and stores what shared memory holds.
std::string copy_through_shared(const std::string& wait) {
  return absl::StrCat(
      R"(
    .shared .align 16 .b8 s[512]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.b32 %r2, s; add.u32 %r2, %r2, %r1; cvt.u64.u32 %rd10, %r1;
    add.s64 %rd11, %rd0, %rd10; add.s64 %rd12, %rd1, %rd10;
    cp.async.cg.shared.global [%r2], [%rd11], 16; cp.async.commit_group;
)",
      wait, "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2]; st.global.v4.u32 [%rd12], {%r4, %r5, %r6, %r7};");
}

TEST(CpAsync, WaitGroupCompletesItsCopies) {
  std::vector<uint32_t> in = random_words(124), out(128);
  const auto copied = [&] {
    const bool same = in == out;
    std::fill(out.begin(), out.end(), 0);
    return same;
  };
  for (const char* wait : {"cp.async.wait_group 0;", "cp.async.wait_all;"}) {
    Program program(2, copy_through_shared(wait));
    program.buffer(in);
    program.buffer(out);
    program.run_all(kOne, {32, 1, 1}, [&] { EXPECT_TRUE(copied()); });
  }
  // One group may stay in flight, so nothing guarantees the data, and the policy `late` shows this.
  Program missing(2, copy_through_shared("cp.async.wait_group 1;"));
  missing.buffer(in);
  missing.buffer(out);
  EXPECT_GE(missing.count_failures(kOne, {32, 1, 1}, copied), 8);
}

TEST(CpAsync, PadsShortSourcesWithZeros) {
  std::vector<uint32_t> in = random_words(0), out(16, 7);
  Program program(2, R"(
    .shared .align 16 .b8 s[64]; mov.b32 %r2, s; mov.b32 %r3, 8;
    cp.async.ca.shared.global [%r2], [%rd0], 16, %r3; cp.async.ca.shared.global [%r2+16], [%rd0], 4; mov.b32 %r3, 0;
    mov.b64 %rd5, 64; cp.async.cg.shared.global [%r2+32], [%rd5], 16, %r3; cp.async.wait_all;
    ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2]; st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r7};
    ld.shared.u32 %r4, [%r2+16]; st.global.u32 [%rd1+16], %r4;
    ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2+32]; st.global.v4.u32 [%rd1+32], {%r4, %r5, %r6, %r7};)");
  program.buffer(in);
  program.buffer(out);
  program.run_all(kOne, kOne, [&] {
    EXPECT_EQ(out, (std::vector<uint32_t>{in[0], in[1], 0, 0, in[0], 7, 7, 7, 0, 0, 0, 0, 7, 7, 7, 7}));
  });
}

TEST(CpAsync, ArrivesAtAnMbarrier) {
  std::vector<uint32_t> in = random_words(124), out(128);
  Program program(2, R"(
    .shared .align 16 .b8 s[512]; .shared .align 8 .b64 bar; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.b32 %r2, s; add.u32 %r2, %r2, %r1;
    cvt.u64.u32 %rd10, %r1; add.s64 %rd11, %rd0, %rd10; sub.s64 %rd12, %rd1, %rd10; mov.b32 %r3, bar;
    setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [%r3], 32; bar.sync 0;
    cp.async.cg.shared.global [%r2], [%rd11], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];
    wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra wait;
    mov.b32 %r8, s; sub.u32 %r9, 496, %r1; add.u32 %r8, %r8, %r9; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r8];
    st.global.v4.u32 [%rd12+496], {%r4, %r5, %r6, %r7};)");
  program.buffer(in);
  program.buffer(out);
  program.run_all(kOne, {32, 1, 1}, [&] {
    EXPECT_EQ(in, out);
    std::fill(out.begin(), out.end(), 0);
  });
}

TEST(Mbarrier, ReportsMisuse) {
  const auto why = [](const std::string& body) {
    Program program(0, ".shared .align 8 .b64 bar; mov.b32 %r1, bar;" + body);
    const absl::Status status = program.run(kOne, kOne);
    EXPECT_FALSE(status.ok()) << body;
    return std::string(status.message());
  };
  EXPECT_THAT(why("mbarrier.arrive.shared.b64 _, [%r1];"), HasSubstr("not initialised"));
  EXPECT_THAT(why("mbarrier.init.shared.b64 [%r1], 2; mbarrier.arrive.shared.b64 _, [%r1], 3;"),
              HasSubstr("3 arrivals"));
  EXPECT_THAT(
      why("mbarrier.init.shared.b64 [%r1], 2; st.shared.b32 [%r1], 5; mbarrier.arrive.shared.b64 _, [%r1];"),
      HasSubstr("overwritten"));
  EXPECT_THAT(why("mbarrier.init.shared.b64 [%r1+4], 1;"), HasSubstr("multiple"));
  EXPECT_THAT(why("mbarrier.init.shared.b64 [%r1], 2; w: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; "
                  "@!%p1 bra w;"),
              HasSubstr("phase 0, 2 of 2 arrivals and 0 bytes missing"));
}

TEST(Mbarrier, PhasesAlternate) {
  // A producer hands a word to a consumer many times, with one buffer and two mbarriers.
  std::vector<uint32_t> out(50);
  Program program(1, R"(
    .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 4 .b32 word; mov.u32 %r0, %tid.x;
    mov.b32 %r1, full; mov.b32 %r2, empty; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [%r1], 1; @%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
    mov.b32 %r3, 0; setp.gt.u32 %p2, %r0, 31; setp.eq.u32 %p3, %r0, 32; @%p2 bra consumer; @!%p1 exit;
    produce: and.b32 %r4, %r3, 1; xor.b32 %r4, %r4, 1;
    w1: mbarrier.try_wait.parity.shared.b64 %p4, [%r2], %r4; @!%p4 bra w1;
    mul.lo.u32 %r5, %r3, 7; st.shared.u32 [word], %r5; mbarrier.arrive.shared.b64 _, [%r1];
    add.u32 %r3, %r3, 1; setp.lt.u32 %p5, %r3, 50; @%p5 bra produce; exit;
    consumer: @!%p3 exit;
    consume: and.b32 %r4, %r3, 1;
    w2: mbarrier.test_wait.parity.shared.b64 %p4, [%r1], %r4; @!%p4 bra w2;
    ld.shared.u32 %r5, [word]; mbarrier.arrive.shared.b64 _, [%r2]; mul.wide.u32 %rd1, %r3, 4; add.s64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r5;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p5, %r3, 50; @%p5 bra consume;)");
  program.buffer(out);
  program.run_all(kOne, {64, 1, 1}, [&] {
    for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(out[i], i * 7);
    std::fill(out.begin(), out.end(), 0);
  });
}

// One thread copies 2 x 64 bytes into shared memory; 32 threads wait for the mbarrier, or do not.
std::string bulk_in(bool waits) {
  return absl::StrCat(
      R"(
    .shared .align 128 .b8 s[128]; .shared .align 8 .b64 bar; mov.u32 %r0, %tid.x; mov.b32 %r1, bar; mov.b32 %r2, s; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 64, [%r1];
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+64], [%rd0+64], 64, [%r1];
)",
      waits ? "w: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra w;"
            : "bar.sync 0;",
      "shl.b32 %r3, %r0, 2; add.u32 %r2, %r2, %r3; ld.shared.u32 %r4, [%r2]; cvt.u64.u32 %rd5, %r3; add.s64 "
      "%rd5, %rd1, %rd5; st.global.u32 [%rd5], %r4;",
      waits ? "" : "w: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra w;");
}

TEST(Bulk, BytesCompleteTheMbarrier) {
  std::vector<uint32_t> in = random_words(28), out(32);
  const auto copied = [&] {
    const bool same = in == out;
    std::fill(out.begin(), out.end(), 0);
    return same;
  };
  Program waiting(2, bulk_in(true));
  waiting.buffer(in);
  waiting.buffer(out);
  waiting.run_all(kOne, {32, 1, 1}, [&] { EXPECT_TRUE(copied()); });
  Program hasty(2, bulk_in(false));
  hasty.buffer(in);
  hasty.buffer(out);
  EXPECT_GE(hasty.count_failures(kOne, {32, 1, 1}, copied), 8);
}

TEST(Bulk, ReportsCopyThatNobodyWaitsFor) {
  std::vector<uint32_t> in = random_words(28);
  Program program(1, R"(
    .shared .align 128 .b8 s[128]; .shared .align 8 .b64 bar; mov.b32 %r1, bar; mov.b32 %r2, s; mbarrier.init.shared.b64 [%r1], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 64; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 64, [%r1];)");
  program.buffer(in);
  EXPECT_THAT(std::string(program.run(kOne, kOne).message()), HasSubstr("copies in flight"));
}

// Stores 128 bytes from shared memory, with the given proxy fence and wait between the copy and the next write.
std::string bulk_out(const std::string& fence, const std::string& wait, const std::string& form) {
  return absl::StrCat(R"(
    .shared .align 128 .b8 s[128]; mov.u32 %r0, %tid.x; shl.b32 %r3, %r0, 2; mov.b32 %r2, s; add.u32 %r4, %r2, %r3; cvt.u64.u32 %rd5, %r3;
    add.s64 %rd5, %rd0, %rd5; ld.global.u32 %r5, [%rd5]; st.shared.u32 [%r4], %r5;
)",
                      fence, " bar.sync 0; setp.ne.u32 %p1, %r0, 0; @%p1 exit;", form,
                      " [%rd1], [%r2], 128; cp.async.bulk.commit_group; ", wait,
                      "mov.b32 %r6, 99; st.shared.u32 [%r2+8], %r6;");
}

TEST(Bulk, StoresNeedFenceAndWait) {
  std::vector<uint32_t> in = random_words(28), out(32);
  const std::string store = "cp.async.bulk.global.shared::cta.bulk_group";
  const auto make = [&](const std::string& fence, const std::string& wait) {
    auto program = std::make_unique<Program>(2, bulk_out(fence, wait, store));
    program->buffer(in);
    program->buffer(out);
    return program;
  };
  const auto copied = [&] { return in == out; };
  for (const char* wait : {"cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"}) {
    make("fence.proxy.async.shared::cta;", wait)->run_all(kOne, {32, 1, 1}, [&] { EXPECT_TRUE(copied()); });
  }
  const std::string unfenced(make("", "cp.async.bulk.wait_group 0;")->run(kOne, {32, 1, 1}).message());
  EXPECT_THAT(unfenced, HasSubstr("fence.proxy.async"));
  // The source is overwritten too early: either an error at exit or the new value in the output.
  auto early = make("fence.proxy.async;", "");
  EXPECT_GE(early->count_failures(kOne, {32, 1, 1}, copied), 8);
}

TEST(Bulk, ReducesIntoGlobalMemory) {
  std::vector<float> in(32), out(32), expected(32);
  for (int i = 0; i < 32; ++i) in[i] = random_eighth();
  Program program(2, bulk_out("fence.proxy.async;", "cp.async.bulk.wait_group 0;",
                              "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"));
  program.buffer(in);
  program.buffer(out);
  program.run_all({3, 1, 1}, {32, 1, 1}, [&] {
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], 3 * in[i]);
    std::fill(out.begin(), out.end(), 0);
  });
}

TEST(Bulk, RefusesMisalignedAndOutOfBoundsCopies) {
  std::vector<uint32_t> in = random_words(28);
  const auto why = [&](const std::string& copy) {
    Program program(1,
                    ".shared .align 128 .b8 s[128]; .shared .align 8 .b64 bar; mov.b32 %r1, bar; mov.b32 "
                    "%r2, s; mbarrier.init.shared.b64 [%r1], 1;" +
                        copy);
    program.buffer(in);
    const absl::Status status = program.run(kOne, kOne);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  const std::string copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes ";
  EXPECT_THAT(why(copy + "[%r2], [%rd0], 24, [%r1];"), HasSubstr("multiple of 16"));
  EXPECT_THAT(why(copy + "[%r2+8], [%rd0], 16, [%r1];"), HasSubstr("not a multiple"));
  EXPECT_THAT(why(copy + "[%r2], [%rd0+4], 16, [%r1];"), HasSubstr("not a multiple"));
  EXPECT_THAT(why(copy + "[%r2], [%rd0+112], 32, [%r1];"), HasSubstr("illegal read"));
  EXPECT_THAT(why(copy + "[%r2+96], [%rd0], 64, [%r1];"), HasSubstr("shared memory is"));
}

}  // namespace
}  // namespace lathe::ptx
