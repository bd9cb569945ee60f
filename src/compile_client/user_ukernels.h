// The ukernels that users registered: of this context, and those that a directory keeps for every context
// that names it.
//
// The directory holds NAME.json (core/user_ukernel.h) and NAME.bc for each. It is trusted as the cache's is:
// another user's, or one that others may write, is refused, and so is such a file.
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
  // Reads the directory, if there is one. What is damaged stays in the list with its defect, so that a plan
  // can say why it is not taken; what cannot be read at all is a warning.
  UserUkernels(std::string directory, const Logger& logger);

  // As they are now; what is added later is another list.
  std::shared_ptr<const std::vector<UserUkernel>> all() const;
  // "" where the config has none of a user.
  std::string bitcode_of(const UkernelRef& ukernel) const;

  // Adds it in place of one of its name; `store`: to the directory first. kUnavailable: there is none that
  // can be written.
  absl::Status add(UserUkernel ukernel, bool store);
  // From here and from the directory. kNotFound: there is none of that name.
  absl::Status remove(absl::string_view name);
  const std::string& directory() const { return directory_; }

 private:
  const std::string directory_;
  mutable ForkSafeMutex mutex_;
  std::shared_ptr<const std::vector<UserUkernel>> all_;
};

}  // namespace lathe
