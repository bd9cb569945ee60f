// The CUDA driver's calls that a benchmark makes itself: graphs to replay, a kernel of its own for the
// ceilings. Opened at run time, as the library does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lathe::bench {

// Throws std::runtime_error naming the call for every result but success.
class CudaDriver {
 public:
  // Opens libcuda.so.1 and makes the primary context of `ordinal` current on this thread.
  explicit CudaDriver(int ordinal);

  // What `work` enqueues on `stream`, as a graph that can be replayed. Whatever `work` throws ends the
  // capture.
  class Graph {
   public:
    Graph(const CudaDriver& driver, void* stream, const std::function<void()>& work);
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    // Replays it and waits.
    void replay() const;

   private:
    const CudaDriver& driver_;
    void* stream_;
    void* graph_ = nullptr;
    void* executable_ = nullptr;
  };

  // A kernel of a cubin or of PTX text.
  void* load_kernel(const std::string& code, const char* name) const;
  // The driver's function of that name.
  void* entry(const char* function) const;
  // `parameters`: `bytes` of the kernel's parameter buffer.
  void launch(void* kernel, unsigned groups, unsigned threads, void* stream, const void* parameters,
              size_t bytes) const;
  void synchronize(void* stream) const;
  // False once a kernel has failed in a way that no later call of this process recovers from.
  bool is_alive(void* stream) const;
  // `words` words of 32 bits.
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

// Bytes a second that all multiprocessors read from `bytes` at `data`, the best of a few sweeps. `sink`: 4
// bytes that may be written.
double measure_read_bandwidth(const CudaDriver& driver, void* stream, const void* data, size_t bytes,
                              void* sink);
// Bytes a second, those read plus those written, of the driver's copies from `data` to `to`: `copied` bytes
// at a time, of each whole part of that length in turn.
double measure_copy_bandwidth(const CudaDriver& driver, void* stream, const void* data, size_t bytes,
                              void* to, size_t copied);

}  // namespace lathe::bench
