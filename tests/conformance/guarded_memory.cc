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

char current_case[512] = "(none)\n";

void report_fault(int signal_number, siginfo_t* info, void*) {
  char address[64];
  const int length = std::snprintf(address, sizeof address, "\nfault at %p in case: ", info->si_addr);
  (void)!write(2, address, static_cast<size_t>(length));
  (void)!write(2, current_case, strnlen(current_case, sizeof current_case));
  signal(signal_number, SIG_DFL);  // returning faults again, now fatally
}

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, Flush flush, size_t misalign) : bytes_(bytes) {
  const size_t page = page_bytes();
  accessible_ = std::max<size_t>(1, (bytes + misalign + page - 1) / page) * page;
  void* mapping = mmap(nullptr, accessible_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    std::perror("mmap");
    std::abort();
  }
  mapping_ = static_cast<uint8_t*>(mapping);
  uint8_t* begin = mapping_ + page;
  if (mprotect(begin, accessible_, PROT_READ | PROT_WRITE) != 0) {
    std::perror("mprotect");
    std::abort();
  }
  data_ = flush == Flush::kStart ? begin + misalign : begin + accessible_ - bytes - misalign;
  std::memset(begin, kCanary, accessible_);
}

GuardedMemory::~GuardedMemory() { munmap(mapping_, accessible_ + 2 * page_bytes()); }

void GuardedMemory::write_protect(bool on) {
  mprotect(mapping_ + page_bytes(), accessible_, on ? PROT_READ : PROT_READ | PROT_WRITE);
}

bool GuardedMemory::canaries_intact() const {
  const auto is_canary = [](uint8_t byte) { return byte == kCanary; };
  const uint8_t* begin = mapping_ + page_bytes();
  return std::all_of(begin, static_cast<const uint8_t*>(data_), is_canary) &&
         std::all_of(static_cast<const uint8_t*>(data_) + bytes_, begin + accessible_, is_canary);
}

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
