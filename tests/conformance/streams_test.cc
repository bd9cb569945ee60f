// Streams: several at once share no workspace and no counters.
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "argmax_case.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

class Streams : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    SKIP_ON_CPU("has no streams");
  }
  // Split, so that partial sums and tickets are in flight.
  static MatmulCase split(int64_t m) {
    MatmulCase c;
    c.m = m;
    c.n = 72;
    c.k = capped(quick_or(520, 4100));
    c.split_k = 6;
    c.trans_b = true;
    c.bias = LATHE_F32;
    c.values = Values::kSmallIntegers;
    return c;
  }
  Random random_ = random_stream(16);
};

TEST_F(Streams, AStreamOfTheCallersServes) {
  const OwnStream stream(device());
  ASSERT_NE(stream.get(), nullptr);
  EXPECT_TRUE(MatmulRequest(split(9), &random_).run(device(), stream.get()));
  ArgmaxCase a;
  a.rows = 3;
  a.n = capped_columns(70001, a.rows);
  EXPECT_TRUE(ArgmaxRequest(a, &random_).run(device(), stream.get()));
}

// Launches alternate between streams without a wait.
TEST_F(Streams, LaunchesInFlightDoNotMeet) {
  constexpr int kStreams = 3;
  std::vector<std::unique_ptr<OwnStream>> streams;
  std::vector<std::unique_ptr<MatmulRequest>> matmuls;
  std::vector<std::unique_ptr<ArgmaxRequest>> rows;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<OwnStream>(device()));
    matmuls.push_back(std::make_unique<MatmulRequest>(split(20), &random_));
    ArgmaxCase a;
    a.rows = 2;
    a.n = capped_columns(quick_or(20011, 200003), a.rows);
    a.kind = Rows::kTies;
    rows.push_back(std::make_unique<ArgmaxRequest>(a, &random_));
    matmuls.back()->reset_output();
    rows.back()->reset_output();
  }
  for (int64_t round = 0; round < quick_or(3, 200); ++round) {
    for (size_t i = 0; i < kStreams; ++i) {
      ASSERT_LATHE_OK(lathe_matmul(device(), streams[i]->get(), matmuls[i]->desc()));
      ASSERT_LATHE_OK(lathe_argmax(device(), streams[i]->get(), rows[i]->desc()));
    }
  }
  for (size_t i = 0; i < kStreams; ++i) {
    ASSERT_LATHE_OK(lathe_stream_synchronize(device(), streams[i]->get()));
    EXPECT_TRUE(matmuls[i]->check());
    EXPECT_TRUE(rows[i]->check());
  }
}

TEST_F(Streams, ThreadsWithStreamsOfTheirOwn) {
  std::atomic<int> failures{0};
  std::mutex mutex;
  std::string message;
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      Random random = random_stream(300 + thread);
      const OwnStream stream(device());
      for (int64_t round = 0; round < quick_or(2, 50); ++round) {
        const testing::AssertionResult result =
            MatmulRequest(split(1 + round % 20), &random).run(device(), stream.get());
        if (result) continue;
        ++failures;
        const std::lock_guard<std::mutex> lock(mutex);
        message = result.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0) << message;
}

// A copy that follows a launch on its stream sees the result; the launch sees the copy before it.
TEST_F(Streams, CopiesAreInOrder) {
  const OwnStream stream(device());
  MatmulRequest request(split(5), &random_);
  request.reset_output();
  const lathe_operand& d = request.desc()->d;
  const size_t bytes = static_cast<size_t>(5 * 72) * sizeof(float);
  const GuardedMemory first(bytes, Flush::kStart);
  ASSERT_LATHE_OK(lathe_matmul(device(), stream.get(), request.desc()));
  ASSERT_LATHE_OK(
      lathe_device_copy(device(), stream.get(), first.address(), d.data, bytes, LATHE_COPY_ON_DEVICE));
  ASSERT_LATHE_OK(lathe_stream_synchronize(device(), stream.get()));
  EXPECT_TRUE(request.check());
  first.fetch();
  const std::vector<uint8_t> wanted = request.output_bytes();
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), first.data()));
}

}  // namespace
}  // namespace lathe::conformance
