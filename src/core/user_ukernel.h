// A ukernel supplied by a user (lathe_ukernel_add): its description and its bitcode. It takes the place of a
// built-in ukernel for the same op and dtype (kernels/candidates_ukernel.h) and is called in the same way.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/facts.h"
#include "core/problem.h"

namespace lathe {

// The sizes that a ukernel supports: multiples of `multiple` from `least` to `most`.
struct SizeRange {
  int64_t least = 0, most = std::numeric_limits<int64_t>::max(), multiple = 1;
  bool operator==(const SizeRange& o) const {
    return least == o.least && most == o.most && multiple == o.multiple;
  }
};

struct UserUkernel {
  std::string name;  // at most 64 lower-case letters, digits, '-' and '_'; used for file names and reports
  Op op = Op::kArgmax;
  DType a = DType::kF32;
  Target target;                           // the architecture and the features that the bitcode needs
  std::string function, attributes;        // as in UkernelRef
  SizeRange m, n, k;                       // argmax: m rows of n columns
  int64_t register_m = 0, register_n = 0;  // matmul: rows and columns of D that one call computes
  std::string group;  // argmax on a GPU: the threads that make one call, "wave" or "block"
  int64_t shared_bytes = 0;
  // The price of one launch: fixed_seconds, plus seconds per operation and per byte of the operands. The rates
  // are those of one CPU worker or of a whole GPU.
  double fixed_seconds = 0, seconds_per_flop = 0, seconds_per_byte = 0;
  std::string digest;  // bitcode_digest of the bitcode

  std::string bitcode;  // the bytes
  std::string defect;   // why it cannot be used; empty if it can

  // The name for UkernelRef::bitcode: "user/NAME@DIGEST".
  std::string bitcode_name() const { return "user/" + name + "@" + digest; }
};

// The description: every field except `bitcode` and `defect`.
Json to_json(const UserUkernel& u);
absl::StatusOr<UserUkernel> user_ukernel_from_json(const Json& j);

// Why `name` is not a valid name of a ukernel; empty if it is.
std::string name_refusal(absl::string_view name);
// XXH3-128 in 32 hex digits.
std::string bitcode_digest(absl::string_view bitcode);

}  // namespace lathe
