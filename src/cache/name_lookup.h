// Resolves a host name within a deadline. getaddrinfo has no timeout.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/socket_io.h"

namespace lathe {

// Not thread-safe.
class NameLookup {
 public:
  using Addresses = std::shared_ptr<const addrinfo>;  // a list of at least one

  // A numeric address is converted at once. A name is looked up on a detached thread. After
  // kDeadlineExceeded, the thread goes on and the next call waits for the same thread, so there is never more
  // than one. kUnavailable: the name has no address, with the resolver's message.
  absl::StatusOr<Addresses> find(const std::string& host, const std::string& port, Deadline deadline);

 private:
  struct Lookup;
  std::shared_ptr<Lookup> under_way_;
};

}  // namespace lathe
