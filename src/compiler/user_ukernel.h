// Ukernels that users bring: a description in YAML and LLVM bitcode, checked before anything is registered.
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

// The description as core/user_ukernel.h has it, with the bitcode's digest. An error names the line of the
// description, or what the bitcode lacks. What reads damaged bitcode may crash: callers ask in a process of
// its own.
absl::StatusOr<Json> check_user_ukernel(absl::string_view yaml, absl::string_view bitcode);

// The description alone; an error names its line.
absl::StatusOr<UserUkernel> parse_user_ukernel(absl::string_view yaml);

// Takes away what processor a function was compiled for, for the kernel's to take its place.
void forget_processor(llvm::Function& f);

// Why a module may not be linked into a kernel of that target, which has no library and keeps nothing: "" if
// it may.
std::string refusal_of(const llvm::Module& bitcode, const llvm::Triple& kernel);

}  // namespace lathe
