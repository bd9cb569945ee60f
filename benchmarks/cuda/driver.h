// CUDA driver calls that the benchmarks make themselves: graphs to replay, and a kernel that measures the
// read bandwidth. The driver is opened at run time, as in the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lathe::bench {

// Throws std::runtime_error with the name of the call if a call fails.
class CudaDriver {
 public:
  // Opens libcuda.so.1 and makes the primary context of `ordinal` current on this thread.
  explicit CudaDriver(int ordinal);

  // Captures what `work` enqueues on `stream` as a graph. If `work` throws, the capture ends and the
  // exception is passed on.
  class Graph {
   public:
    Graph(const CudaDriver& driver, void* stream, const std::function<void()>& work);
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    // Replays the graph and waits for it.
    void replay() const;

   private:
    const CudaDriver& driver_;
    void* stream_;
    void* graph_ = nullptr;
    void* executable_ = nullptr;
  };

  // Loads a kernel from a cubin or from PTX text.
  void* load_kernel(const std::string& code, const char* name) const;
  // Returns the driver's function of that name.
  void* entry(const char* function) const;
  // `parameters`: the kernel's parameter buffer of `bytes` bytes.
  void launch(void* kernel, unsigned groups, unsigned threads, void* stream, const void* parameters,
              size_t bytes) const;
  void synchronize(void* stream) const;
  // False after an error that makes every later call of this process fail.
  bool is_alive(void* stream) const;
  // Fills `words` 32-bit words with `value`.
  void fill(void* data, uint32_t value, size_t words, void* stream) const;
  void copy_on_device(void* to, const void* from, size_t bytes, void* stream) const;
  int64_t l2_bytes() const { return l2_bytes_; }
  int units() const { return units_; }
  const std::string& name() const { return name_; }

 private:
  friend class Graph;
  template <typename... Arguments>
  int result_of(const char* function, Arguments... arguments) const;
  template <typename... Arguments>
  void call(const char* function, Arguments... arguments) const;

  void* library_ = nullptr;
  int64_t l2_bytes_ = 0;
  int units_ = 0;
  std::string name_;
};

// Bytes per second that all multiprocessors together read from `data`, the best of a few sweeps. `sink`: 4
// bytes that may be written.
double measure_read_bandwidth(const CudaDriver& driver, void* stream, const void* data, size_t bytes,
                              void* sink);
// Bytes per second, read plus written, of the driver's copies from `data` to `to`. Copies each part of
// `copied` bytes in turn.
double measure_copy_bandwidth(const CudaDriver& driver, void* stream, const void* data, size_t bytes,
                              void* to, size_t copied);

}  // namespace lathe::bench
