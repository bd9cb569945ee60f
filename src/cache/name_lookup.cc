#include "cache/name_lookup.h"

#include <dlfcn.h>
#include <sys/socket.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/signals_blocked.h"

namespace lathe {
namespace {

absl::Status unknown(const std::string& host, int error) {
  return absl::UnavailableError(absl::StrCat(host, ": ", gai_strerror(error)));
}

int look_up(const std::string& host, const std::string& port, int flags, addrinfo** found) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return getaddrinfo(host.c_str(), port.c_str(), &hints, found);
}

// Prevents the host from unloading this library, because a detached thread would return into unmapped code.
void keep_this_library() {
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&keep_this_library), &here) != 0)
    (void)dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// Returns false if no thread can be started.
template <typename Work>
bool start_detached(Work&& work) {
  const SignalsBlocked blocked;
  try {
    std::thread(std::forward<Work>(work)).detach();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

struct NameLookup::Lookup {
  Lookup(std::string h, std::string p) : host(std::move(h)), port(std::move(p)) {}
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup() {
    if (found != nullptr) freeaddrinfo(found);
  }
  void run() {
    addrinfo* addresses = nullptr;
    const int result = look_up(host, port, 0, &addresses);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      error = result;
      found = addresses;
      done = true;
    }
    changed.notify_all();
  }

  const std::string host, port;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;  // under mutex, like the two below
  int error = 0;
  addrinfo* found = nullptr;
};

absl::StatusOr<NameLookup::Addresses> NameLookup::find(const std::string& host, const std::string& port,
                                                       Deadline deadline) {
  addrinfo* number = nullptr;
  const int error = look_up(host, port, AI_NUMERICHOST, &number);
  if (error == 0) return Addresses(number, freeaddrinfo);
  if (error != EAI_NONAME) return unknown(host, error);

  if (under_way_ == nullptr || under_way_->host != host || under_way_->port != port) {
    auto lookup = std::make_shared<Lookup>(host, port);
    keep_this_library();
    if (!start_detached([lookup] { lookup->run(); }))
      return absl::UnavailableError(absl::StrCat(host, ": no thread can be started to look it up"));
    under_way_ = std::move(lookup);
  }
  {
    std::unique_lock<std::mutex> lock(under_way_->mutex);
    if (!under_way_->changed.wait_until(lock, deadline, [this] { return under_way_->done; }))
      return absl::DeadlineExceededError(absl::StrCat(host, ": its name is not resolved in time"));
  }
  const std::shared_ptr<Lookup> done = std::move(under_way_);
  if (done->error != 0) return unknown(host, done->error);
  return Addresses(done, done->found);
}

}  // namespace lathe
