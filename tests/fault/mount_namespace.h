// A file system of a test's own, in a mount namespace that a process of its own holds.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace lathe::fault {

class MountNamespace {
 public:
  // A tmpfs on `directory`, seen by none but those who enter(). Needs no rights where users may have
  // namespaces; `refusal()` says why there is none.
  MountNamespace(const std::string& directory, const std::string& tmpfs_options);
  ~MountNamespace();
  MountNamespace(const MountNamespace&) = delete;
  MountNamespace& operator=(const MountNamespace&) = delete;

  const std::string& refusal() const { return refusal_; }
  // Moves this process, of one thread, into it.
  bool enter() const;
  // In a child of this process that has entered; false where it returned that or could not.
  bool run(const std::function<bool()>& body) const;

 private:
  pid_t holder_ = -1;
  std::string refusal_;
};

}  // namespace lathe::fault
