#include "guarded_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace lathe::conformance {
namespace {

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Where allocations of an emulated device begin in a page, if an inaccessible page follows each of them; else 0.
size_t page_offset() {
  static const char* const text = std::getenv("LATHE_TEST_PAGE_OFFSET");
  return text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
}

char current_case[512] = "(none)\n";
lathe_device* operands_device = nullptr;  // null: the host's memory

// Copies and waits for the null stream, so all its earlier work is complete.
void copy(lathe_device* device, void* to, const void* from, size_t bytes, lathe_copy_kind kind) {
  if (lathe_device_copy(device, nullptr, to, from, bytes, kind) == LATHE_OK &&
      lathe_stream_synchronize(device, nullptr) == LATHE_OK) {
    return;
  }
  // A fault of a kernel surfaces here. After it, no result on the device can be trusted.
  std::fprintf(stderr, "%s\nin case: %s", lathe_last_error(), current_case);
  std::abort();
}

void report_fault(int signal_number, siginfo_t* info, void*) {
  char address[64];
  const int length = std::snprintf(address, sizeof address, "\nfault at %p in case: ", info->si_addr);
  (void)!write(2, address, static_cast<size_t>(length));
  (void)!write(2, current_case, strnlen(current_case, sizeof current_case));
  signal(signal_number, SIG_DFL);  // the access faults again after the return and ends the process
}

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, Flush flush, size_t misalign) : bytes_(bytes) {
  if (operands_device != nullptr) {
    allocate_on(operands_device, flush, misalign);
  } else {
    map_pages(flush, misalign);
  }
  std::memset(begin_, canary_, accessible_);
  publish();  // new device memory has arbitrary contents
}

GuardedMemory::~GuardedMemory() {
  if (mapping_ != nullptr) munmap(mapping_, accessible_ + 2 * page_bytes());
  if (device_ != nullptr) lathe_device_free(device_, device_memory_);
}

void GuardedMemory::map_pages(Flush flush, size_t misalign) {
  const size_t page = page_bytes();
  accessible_ = std::max<size_t>(1, (bytes_ + misalign + page - 1) / page) * page;
  void* mapping = mmap(nullptr, accessible_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    std::perror("mmap");
    std::abort();
  }
  mapping_ = static_cast<uint8_t*>(mapping);
  begin_ = mapping_ + page;
  if (mprotect(begin_, accessible_, PROT_READ | PROT_WRITE) != 0) {
    std::perror("mprotect");
    std::abort();
  }
  data_ = flush == Flush::kStart ? begin_ + misalign : begin_ + accessible_ - bytes_ - misalign;
  address_ = data_;
}

void GuardedMemory::allocate_on(lathe_device* device, Flush flush, size_t misalign) {
  constexpr size_t kBand = 4096, kBoundary = 256;
  canary_ = 0xFF;  // NaN in every floating-point format
  size_t end = (kBand + misalign + bytes_ + kBoundary - 1) / kBoundary * kBoundary, band_after = kBand;
  if (page_offset() != 0 && flush == Flush::kEnd) {
    const size_t pages = (page_offset() + end + page_bytes() - 1) / page_bytes();
    end = pages * page_bytes() - page_offset();
    band_after = 0;
  }
  image_.resize(end + band_after);
  device_ = device;
  if (lathe_device_alloc(device, image_.size(), &device_memory_) != LATHE_OK) {
    std::fprintf(stderr, "%s\n", lathe_last_error());
    std::abort();
  }
  begin_ = image_.data();
  accessible_ = image_.size();
  data_ = flush == Flush::kStart ? begin_ + kBand + misalign : begin_ + end - bytes_ - misalign;
  address_ = static_cast<uint8_t*>(device_memory_) + (data_ - begin_);
}

void GuardedMemory::publish() const {
  if (device_ == nullptr) return;
  copy(device_, device_memory_, image_.data(), image_.size(), LATHE_COPY_TO_DEVICE);
}

void GuardedMemory::fetch() const {
  if (device_ == nullptr) return;
  copy(device_, image_.data(), device_memory_, image_.size(), LATHE_COPY_TO_HOST);
}

void GuardedMemory::write_protect(bool on) {
  if (device_ != nullptr) return publish();
  mprotect(begin_, accessible_, on ? PROT_READ : PROT_READ | PROT_WRITE);
}

bool GuardedMemory::unchanged() const {
  if (device_ == nullptr) return true;
  const std::vector<uint8_t> published = image_;
  fetch();
  return image_ == published;
}

bool GuardedMemory::canaries_intact() const {
  const auto is_canary = [this](uint8_t byte) { return byte == canary_; };
  return std::all_of(begin_, data_, is_canary) &&
         std::all_of(data_ + bytes_, begin_ + accessible_, is_canary);
}

void GuardedMemory::use_device(lathe_device* device) { operands_device = device; }

void set_current_case(const std::string& description) {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = report_fault;
    action.sa_flags = SA_SIGINFO;
    for (int signal_number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigaction(signal_number, &action, nullptr);
    return true;
  }();
  (void)installed;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::snprintf(current_case, sizeof current_case, "%s\n", description.c_str());
}

}  // namespace lathe::conformance
