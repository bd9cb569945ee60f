// Cost of a call whose kernel is cached, compared with calling the kernel directly. Counts allocations too.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bare_task.h"
#include "contest.h"
#include "count_allocations.h"
#include "dispatch/dispatch_table.h"
#include "options.h"
#include "report.h"
#include "temporary_directory.h"

namespace lathe::bench {
namespace {

constexpr int64_t kM = 1, kN = 16, kK = 16;

// The table alone: nanoseconds per find() among the classes of a model's weights. Every thread searches all.
double lookup_nanoseconds(int threads) {
  DispatchTable table;
  std::vector<DispatchKey> keys;
  for (int64_t weight = 0; weight < 64; ++weight) {
    for (int64_t m : {1, 2, 4, 8, 16, 32, 64, 512}) {
      DispatchKey key;
      key.problem.op = Op::kMatmul;
      key.problem.n = 1024 + 512 * weight;
      key.problem.k = 4096;
      key.problem.m_lo = key.problem.m_hi = m;
      keys.push_back(key);
      table.insert({key, nullptr, 1, false, {}});
    }
  }
  constexpr int kRounds = 4000;
  std::atomic<uint64_t> missing{0};
  const double start = now_seconds();
  on_threads(threads, [&](int) {
    uint64_t absent = 0;
    for (int round = 0; round < kRounds; ++round)
      for (const DispatchKey& key : keys) absent += table.find(key) == nullptr;
    missing += absent;
  });
  const double seconds = now_seconds() - start;
  if (missing != 0) std::fprintf(stderr, "dispatch: the table did not find a class that was inserted\n");
  return seconds / kRounds / static_cast<double>(keys.size()) * 1e9;
}

}  // namespace

bool bench_dispatch(const Options& options) {
  const TemporaryDirectory cache;
  BenchDevice device(1, cache.path());
  if (!device.ok()) return false;

  std::vector<float> a(kM * kK, 1), b(kN * kK, 2), d(kM * kN);
  const lathe_matmul_desc desc = linear({kM, kN, kK}, a.data(), b.data(), d.data());
  lathe_plan* plan = nullptr;
  if (!succeeded(lathe_plan_matmul(device.get(), &desc, &plan), "planning")) return false;
  if (!succeeded(lathe_matmul(device.get(), nullptr, &desc), "matmul")) return false;
  auto bare = BareTask::load(cache.path(), {kM, kN, kK, 1});
  if (!bare.ok()) {
    std::fprintf(stderr, "%s\n", bare.status().ToString().c_str());
    return false;
  }
  ArgumentBlock& args = *(*bare)->arguments();
  args.a = a.data();
  args.b = b.data();
  args.d = d.data();
  args.lda = args.ldb = kK;
  args.ldd = args.ldc = args.ldr = kN;
  std::fill(d.begin(), d.end(), -1.0f);
  (*bare)->call();
  if (d[0] != 2 * kK) {
    std::fprintf(stderr, "bare call: the kernel computed %g, expected %ld\n", d[0],
                 static_cast<long>(2 * kK));
    return false;
  }

  std::vector<uint8_t> row(64 * 4, 0);
  int32_t index = 0;
  lathe_argmax_desc argmax = LATHE_ARGMAX_DESC_INIT;
  argmax.rows = 1;
  argmax.n = 16;
  argmax.x.data = row.data();
  argmax.x.dtype = LATHE_F32;
  argmax.indices = &index;
  argmax.index_dtype = LATHE_I32;
  if (!succeeded(lathe_argmax(device.get(), nullptr, &argmax), "argmax")) return false;

  const auto dispatch = [&] { lathe_matmul(device.get(), nullptr, &desc); };
  ContestOptions contest;
  contest.seconds = options.seconds;
  const std::vector<Standing> standings =
      run_contest({{"lathe_matmul", dispatch},
                   {"lathe_plan_run_matmul", [&] { lathe_plan_run_matmul(plan, nullptr, &desc); }},
                   {"bare task call", [&] { (*bare)->call(); }},
                   {"lathe_argmax 1x16", [&] { lathe_argmax(device.get(), nullptr, &argmax); }}},
                  contest);

  // The same call from several threads: a lock would make it slower.
  constexpr int kCalls = 200'000;
  const int callers = std::max({2, options.threads, static_cast<int>(std::thread::hardware_concurrency())});
  const double start = now_seconds();
  on_threads(callers, [&](int) {
    std::vector<float> own(kM * kN);
    lathe_matmul_desc mine = desc;
    mine.d.data = own.data();
    for (int i = 0; i < kCalls; ++i) lathe_matmul(device.get(), nullptr, &mine);
  });
  const double together = (now_seconds() - start) / kCalls;

  const uint64_t before = allocations();
  for (int i = 0; i < 100'000; ++i) dispatch();
  const uint64_t made = allocations() - before;
  lathe_plan_destroy(plan);

  Table table("cached dispatch, matmul f32 1x16x16", {"what", "ns a call", "p10", "p90"});
  for (const Standing& standing : standings) {
    table.add({standing.name, number(standing.seconds * 1e9, 1),
               number(quantile(standing.rounds, 0.1) * 1e9, 1),
               number(quantile(standing.rounds, 0.9) * 1e9, 1)});
  }
  table.add(
      {"lathe_matmul from " + std::to_string(callers) + " threads", number(together * 1e9, 1), "-", "-"});
  double lookups[2];
  for (int threads : {1, callers}) {
    double& lookup = lookups[threads > 1];
    lookup = lookup_nanoseconds(threads);
    table.add(
        {"the table's lookup alone, " + std::to_string(threads) + " threads", number(lookup, 1), "-", "-"});
  }
  table.print();
  table.write_csv(options.csv_directory, "dispatch.csv");
  std::printf("dispatch over a bare call: %.1f ns; allocations in 100000 calls: %llu\n",
              (standings[0].seconds - standings[2].seconds) * 1e9, static_cast<unsigned long long>(made));
  meets_bar("a lookup", lookups[0], 50, " ns", !options.smoke);
  meets_bar("a lookup, " + std::to_string(callers) + " threads", lookups[1], 100, " ns", !options.smoke);
  if (made != 0) std::fprintf(stderr, "dispatch: cached calls allocate memory, expected no allocation\n");
  return made == 0 && table.is_written();
}

}  // namespace lathe::bench
