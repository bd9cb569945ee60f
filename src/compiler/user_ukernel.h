// Ukernels supplied by users: a description in YAML and LLVM bitcode. Both are checked before the ukernel is
// registered.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/json.h"
#include "core/user_ukernel.h"

namespace llvm {
class Function;
class Module;
class Triple;
}  // namespace llvm

namespace lathe {

// Returns the description in the form of core/user_ukernel.h, with the bitcode's digest. An error names the line
// of the description or the defect of the bitcode. LLVM may crash on damaged bitcode, so call this in a separate
// process.
absl::StatusOr<Json> check_user_ukernel(absl::string_view yaml, absl::string_view bitcode);

// Parses the description only. An error names its line.
absl::StatusOr<UserUkernel> parse_user_ukernel(absl::string_view yaml);

// Removes the attributes that say for which processor a function was compiled, so that those of the kernel
// apply.
void forget_processor(llvm::Function& f);

// Why the module cannot be linked into a kernel for this target; empty if it can. A kernel has no library and no
// static data.
std::string refusal_of(const llvm::Module& bitcode, const llvm::Triple& kernel);

}  // namespace lathe
