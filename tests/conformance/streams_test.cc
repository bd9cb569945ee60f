// Several streams at once must not share a workspace or counters.
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "argmax_case.h"
#include "candidates.h"
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
  // A split product, so that partial sums and tickets are in flight.
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
  // A 16-bit product that every kernel family accepts: few rows, and lines of whole 16 bytes.
  static MatmulCase split_of_any_family() {
    MatmulCase c;
    c.m = 13;
    c.n = quick_or(72, 520);
    c.k = capped(quick_or(1040, 4112));
    c.in = LATHE_BF16;
    c.trans_b = true;
    c.aligned_lines = true;
    c.flush = Flush::kStart;
    c.bias = LATHE_F32;
    c.values = Values::kSmallIntegers;
    return c;
  }
  // All kernel forms that split such a request, with each way to merge.
  std::vector<KernelForm> split_forms() {
    const MatmulRequest request(split_of_any_family(), &random_);
    std::vector<nlohmann::json> splitting;
    for (const nlohmann::json& candidate : legal_candidates(device(), *request.desc()))
      if (candidate.value("splits", 1) > 1) splitting.push_back(candidate);
    const std::vector<KernelForm> forms = kernel_forms(splitting);
    for (const KernelForm& form : forms) std::printf("forced: %s\n", form.name.c_str());
    EXPECT_GT(forms.size(), 1u);
    return forms;
  }
  std::unique_ptr<MatmulRequest> forced(const KernelForm& form) {
    auto request = std::make_unique<MatmulRequest>(split_of_any_family(), &random_);
    request->set_tuning(0, form.rank);
    return request;
  }
  Random random_ = random_stream(16);
};

TEST_F(Streams, RunsOnACallersStream) {
  const OwnStream stream(device());
  ASSERT_NE(stream.get(), nullptr);
  EXPECT_TRUE(MatmulRequest(split(9), &random_).run(device(), stream.get()));
  ArgmaxCase a;
  a.rows = 3;
  a.n = capped_columns(70001, a.rows);
  EXPECT_TRUE(ArgmaxRequest(a, &random_).run(device(), stream.get()));
}

// Launches alternate between streams without waiting.
TEST_F(Streams, LaunchesInFlightDoNotInterfere) {
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

// Splits of every family, with each way to merge, on several streams at once. Each form of kernel finds in the
// workspace and the counters what the previous form left there. Each launch has its own result.
TEST_F(Streams, SplitsOfEveryFamilyAtOnce) {
  constexpr size_t kStreams = 3;
  const std::vector<KernelForm> forms = split_forms();
  std::vector<std::unique_ptr<OwnStream>> streams;
  std::vector<std::vector<std::unique_ptr<MatmulRequest>>> requests(kStreams);  // by stream, then by form
  for (size_t s = 0; s < kStreams; ++s) {
    streams.push_back(std::make_unique<OwnStream>(device()));
    for (const KernelForm& form : forms) requests[s].push_back(forced(form));
  }
  for (int64_t lap = 0; lap < quick_or(2, 60) && !is_over(); ++lap) {
    for (const auto& of_stream : requests)
      for (const auto& request : of_stream) request->reset_output();
    // In even laps all streams run the same form, in odd laps different ones.
    const size_t apart = lap % 2 ? forms.size() / kStreams : 0;
    for (size_t f = 0; f < forms.size(); ++f)
      for (size_t s = 0; s < kStreams; ++s) {
        const size_t form = (f + s * apart) % forms.size();
        ASSERT_LATHE_OK(lathe_matmul(device(), streams[s]->get(), requests[s][form]->desc()));
      }
    for (const auto& stream : streams) ASSERT_LATHE_OK(lathe_stream_synchronize(device(), stream->get()));
    for (size_t s = 0; s < kStreams; ++s)
      for (size_t f = 0; f < forms.size(); ++f)
        ASSERT_TRUE(requests[s][f]->check()) << forms[f].name << " on stream " << s << " in lap " << lap;
  }
}

// One workspace of the caller, zeroed once, for the splits of every family. Each kernel must leave its counters at
// zero, and the counters must not overlap the partial sums of another kernel.
TEST_F(Streams, OneZeroedWorkspaceServesEveryFamily) {
  const OwnStream stream(device());
  std::vector<std::unique_ptr<MatmulRequest>> requests;
  size_t bytes = 0;
  MatmulRequest* neediest = nullptr;
  for (const KernelForm& form : split_forms()) {
    requests.push_back(forced(form));
    lathe_plan* plan = nullptr;
    ASSERT_LATHE_OK(lathe_plan_matmul(device(), requests.back()->desc(), &plan));
    size_t needed = 0;
    EXPECT_LATHE_OK(lathe_plan_workspace_bytes(plan, &needed));
    lathe_plan_destroy(plan);
    if (needed > bytes) bytes = needed, neediest = requests.back().get();
  }
  ASSERT_GT(bytes, 0u);
  bytes *= 2;
  const GuardedMemory workspace(bytes, Flush::kStart);
  std::fill(workspace.data(), workspace.data() + bytes, uint8_t{0});
  workspace.publish();
  for (int round = 0; round < 2; ++round)
    for (const auto& request : requests) {
      request->set_workspace(workspace.address(), bytes, LATHE_WORKSPACE_ZEROED);
      EXPECT_TRUE(request->run(device(), stream.get()));
    }
  neediest->set_workspace(workspace.address(), bytes - 1, LATHE_WORKSPACE_ZEROED);
  EXPECT_EQ(lathe_matmul(device(), stream.get(), neediest->desc()), LATHE_INVALID_ARGUMENT)
      << "a zeroed workspace must have twice the needed size";
  workspace.fetch();
  EXPECT_TRUE(workspace.canaries_intact());
}

TEST_F(Streams, ThreadsWithTheirOwnStreams) {
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

// Copies and launches on one stream run in order.
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
