// argmax of cold logits against the bandwidth of reading them, graph-replayed. torch.argmax as a peer is
// argmax_vs_torch.py's.
#include <cstdio>

#include "cuda/bench.h"
#include "report.h"

namespace lathe::bench {
namespace {

bool is_right(const DevicePool& pool, int64_t rows, int64_t n, const std::vector<int64_t>& got) {
  for (int64_t row = 0; row < rows; ++row) {
    int64_t best = 0;
    for (int64_t j = 1; j < n; ++j)
      if (pool.value(static_cast<size_t>(row * n + j)) > pool.value(static_cast<size_t>(row * n + best)))
        best = j;
    if (got[static_cast<size_t>(row)] == best) continue;
    std::fprintf(stderr, "argmax %ldx%ld: row %ld is %ld, expected %ld\n", static_cast<long>(rows),
                 static_cast<long>(n), static_cast<long>(row),
                 static_cast<long>(got[static_cast<size_t>(row)]), static_cast<long>(best));
    return false;
  }
  return true;
}

}  // namespace

bool bench_cuda_argmax(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool) {
  Table table("argmax " + options.dtype_name + ", " + gpu.driver.name(),
              {"rows", "V", "lathe us", "GB/s", "of read bandwidth", "rounds"});
  for (int64_t n : options.argmax_n) {
    for (int64_t rows : options.argmax_rows) {
      const size_t bytes = static_cast<size_t>(rows * n) * 2;
      if (pool.copies(bytes) == 0) continue;
      const Buffer indices = gpu.device.allocate(static_cast<size_t>(rows) * sizeof(int64_t));
      const auto call = [&](size_t index) {
        gpu.device.run(
            argmax_desc(Matrix{pool.copy(bytes, index), options.dtype, rows, n}, indices.as<int64_t>()),
            gpu.stream);
      };
      std::vector<int64_t> got(static_cast<size_t>(rows), -1);
      indices.upload(got.data(), got.size() * sizeof(int64_t), gpu.stream);
      call(0);
      indices.download(got.data(), got.size() * sizeof(int64_t), gpu.stream);
      gpu.device.synchronize(gpu.stream);
      if (!is_right(pool, rows, n, got)) return false;
      const size_t cold =
          std::min(4 * static_cast<size_t>(gpu.driver.l2_bytes()) / bytes + 1, pool.copies(bytes));
      const int calls = calls_for(4e-6, cold);
      std::vector<GraphEntrant> entrants;
      entrants.push_back({"lathe",
                          std::make_unique<CudaDriver::Graph>(gpu.driver, gpu.stream,
                                                              [&] {
                                                                for (int i = 0; i < calls; ++i)
                                                                  call(static_cast<size_t>(i));
                                                              }),
                          calls});
      const Standing ours = run_graph_contest(entrants, options.seconds)[0];
      const double rate = static_cast<double>(bytes) / ours.seconds;
      table.add({std::to_string(rows), std::to_string(n), number(ours.seconds * 1e6, 2),
                 number(rate * 1e-9, 0), number(100 * rate / gpu.read_bandwidth, 0) + "%",
                 std::to_string(ours.rounds.size())});
    }
  }
  table.print();
  table.write_csv(options.csv_directory, "cuda_argmax_" + options.dtype_name + ".csv");
  return true;
}

}  // namespace lathe::bench
