// A ukernel that a user brought (lathe_ukernel_add): what its description says, and its bitcode. It stands in
// for a built-in one of its op and type (kernels/candidates_ukernel.h) and is called as that one is.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/facts.h"
#include "core/problem.h"

namespace lathe {

// Sizes that a ukernel serves: between `least` and `most`, multiples of `multiple`.
struct SizeRange {
  int64_t least = 0, most = std::numeric_limits<int64_t>::max(), multiple = 1;
  bool operator==(const SizeRange& o) const {
    return least == o.least && most == o.most && multiple == o.multiple;
  }
};

struct UserUkernel {
  std::string name;  // lower-case letters, digits, '-' and '_', at most 64: of its files, and in reports
  Op op = Op::kArgmax;
  DType a = DType::kF32;
  Target target;                           // the architecture and the features that its bitcode needs
  std::string function, attributes;        // as in UkernelRef
  SizeRange m, n, k;                       // argmax: rows of n columns
  int64_t register_m = 0, register_n = 0;  // matmul: rows and columns of D that a call computes
  std::string group;                       // argmax on a GPU: whose threads make a call, "wave" or "block"
  int64_t shared_bytes = 0;
  // Predicted: fixed_seconds of a call of the library, and of its operations and the bytes of its operands on
  // one of a CPU's workers, or on all of a GPU.
  double fixed_seconds = 0, seconds_per_flop = 0, seconds_per_byte = 0;
  std::string digest;  // of the bitcode

  std::string bitcode;  // its bytes
  std::string defect;   // why it cannot be used, "" if it can

  // As UkernelRef has it: "user/NAME@DIGEST".
  std::string bitcode_name() const { return "user/" + name + "@" + digest; }
};

// The description: every field but the last two.
Json to_json(const UserUkernel& u);
absl::StatusOr<UserUkernel> user_ukernel_from_json(const Json& j);

// Why a name cannot be one, "" if it can.
std::string name_refusal(absl::string_view name);
// 32 hex digits of its 128-bit XXH3.
std::string bitcode_digest(absl::string_view bitcode);

}  // namespace lathe
