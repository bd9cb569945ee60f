// argmax of cold logits, replayed as a graph, compared with the read bandwidth. vs_torch.py compares it with
// torch.argmax.
#include <cstdio>
#include <stdexcept>

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

class CudaArgmax {
 public:
  CudaArgmax(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool)
      : gpu_(gpu),
        options_(options),
        pool_(pool),
        table_("argmax " + options.dtype_name + ", " + gpu.driver.name(),
               {"rows", "V", "lathe us", "GB/s", "of read bandwidth", "rounds"}) {
    table_.write_csv(options.csv_directory, "cuda_argmax_" + options.dtype_name + ".csv");
  }

  // Returns false if the result is wrong or a call fails; the row says which.
  bool measure(int64_t rows, int64_t n) {
    std::vector<std::string> row = {std::to_string(rows), std::to_string(n), "WRONG", "-", "-", "-"};
    bool right = false;
    try {
      right = measure(rows, n, &row);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "argmax %ldx%ld: %s\n", static_cast<long>(rows), static_cast<long>(n), e.what());
      row[2] = "REFUSED";
    }
    table_.add(row);
    if (!gpu_.driver.is_alive(gpu_.stream)) throw std::runtime_error("the CUDA context is lost");
    return right;
  }

  // Returns false if a row cannot be written.
  [[nodiscard]] bool report() const {
    table_.print();
    return table_.is_written();
  }

 private:
  bool measure(int64_t rows, int64_t n, std::vector<std::string>* row) const {
    const size_t bytes = static_cast<size_t>(rows * n) * 2;
    const Buffer indices = gpu_.device.allocate(static_cast<size_t>(rows) * sizeof(int64_t));
    const auto call = [&](size_t index) {
      gpu_.device.run(
          argmax_desc(Matrix{pool_.copy(bytes, index), options_.dtype, rows, n}, indices.as<int64_t>()),
          gpu_.stream);
    };
    std::vector<int64_t> got(static_cast<size_t>(rows), -1);
    indices.upload(got.data(), got.size() * sizeof(int64_t), gpu_.stream);
    call(0);
    indices.download(got.data(), got.size() * sizeof(int64_t), gpu_.stream);
    gpu_.device.synchronize(gpu_.stream);
    if (!is_right(pool_, rows, n, got)) return false;
    std::vector<GraphEntrant> entrants;
    entrants.push_back(capture_calls(gpu_, "lathe", cold_copies(gpu_, pool_, bytes), call));
    const Standing ours = run_graph_contest(entrants, options_.seconds)[0];
    const double rate = static_cast<double>(bytes) / ours.seconds;
    (*row)[2] = number(ours.seconds * 1e6, 2);
    (*row)[3] = number(rate * 1e-9, 0);
    (*row)[4] = number(100 * rate / gpu_.read_bandwidth, 0) + "%";
    (*row)[5] = std::to_string(ours.rounds.size());
    return true;
  }

  const Gpu& gpu_;
  const CudaBenchOptions& options_;
  const DevicePool& pool_;
  Table table_;
};

}  // namespace

bool bench_cuda_argmax(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& pool) {
  CudaArgmax argmax(gpu, options, pool);
  bool right = true;
  for (int64_t n : options.argmax_n) {
    for (int64_t rows : options.argmax_rows) {
      if (is_over(options) || pool.copies(static_cast<size_t>(rows * n) * 2) == 0) continue;
      right &= argmax.measure(rows, n);
    }
  }
  return argmax.report() && right;
}

}  // namespace lathe::bench
