// The ukernels that users registered: for one context, or in a directory for every context that uses it.
//
// The directory holds NAME.json (core/user_ukernel.h) and NAME.bc for each. As for the cache directory, a directory
// or file that belongs to another user, or that others may write, is refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/fork_safe_mutex.h"
#include "base/log.h"
#include "core/plan.h"
#include "core/user_ukernel.h"

namespace lathe {

// Thread-safe.
class UserUkernels {
 public:
  // Reads the directory, if there is one. A ukernel whose bitcode is damaged stays in the list with its defect, so
  // that a plan can say why it is rejected. One whose description cannot be read is logged as a warning.
  UserUkernels(std::string directory, const Logger& logger);

  // The current list. add and remove make a new list and do not change this one.
  std::shared_ptr<const std::vector<UserUkernel>> all() const;
  // "" if `ukernel` is not a user's.
  std::string bitcode_of(const UkernelRef& ukernel) const;

  // Adds a ukernel; replaces one with the same name. With `store` it is first written to the directory; kUnavailable
  // if there is no directory or it cannot be written.
  absl::Status add(UserUkernel ukernel, bool store);
  // Removes it from the list and from the directory. kNotFound: there is no ukernel with this name.
  absl::Status remove(absl::string_view name);
  const std::string& directory() const { return directory_; }

 private:
  const std::string directory_;
  mutable ForkSafeMutex mutex_;
  std::shared_ptr<const std::vector<UserUkernel>> all_;
};

}  // namespace lathe
