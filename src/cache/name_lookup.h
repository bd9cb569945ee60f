// The addresses of a host by a deadline, which the system's resolver does not know.
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
  using Addresses = std::shared_ptr<const addrinfo>;  // a list, of at least one

  // Of a number at once; a name is looked up on a thread, which is left to itself at the deadline. The next
  // call waits for it again, so however long the resolver takes there is one of them. kDeadlineExceeded;
  // kUnavailable: the name has no address, in the resolver's words.
  absl::StatusOr<Addresses> find(const std::string& host, const std::string& port, Deadline deadline);

 private:
  struct Lookup;
  std::shared_ptr<Lookup> under_way_;
};

}  // namespace lathe
