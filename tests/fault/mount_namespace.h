// A file system that only a test sees, in a mount namespace that a child process keeps alive.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace lathe::fault {

class MountNamespace {
 public:
  // Mounts a tmpfs on `directory` that only processes after enter() see. Needs no rights if users may create
  // namespaces. If it fails, refusal() has the reason.
  MountNamespace(const std::string& directory, const std::string& tmpfs_options);
  ~MountNamespace();
  MountNamespace(const MountNamespace&) = delete;
  MountNamespace& operator=(const MountNamespace&) = delete;

  const std::string& refusal() const { return refusal_; }
  // Moves this process, which must have one thread, into the namespace.
  bool enter() const;
  // Runs `body` in a child in the namespace. Returns false if it returned false or could not run.
  bool run(const std::function<bool()>& body) const;

 private:
  pid_t holder_ = -1;
  std::string refusal_;
};

}  // namespace lathe::fault
