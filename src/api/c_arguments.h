// Checks that all C functions share.
#pragma once

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "lathe/lathe.h"
#include "request/pass_text.h"

namespace lathe {

inline absl::Status null_argument(absl::string_view call, absl::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat(call, ": ", name, " is NULL"));
}

// Checks a struct that the call fills: it must have its size and no chain.
template <typename T>
absl::Status check_out_struct(absl::string_view name, const T* out) {
  if (out == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, " is NULL"));
  if (out->struct_size != sizeof(T)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": struct_size ", out->struct_size, " is not ", sizeof(T)));
  }
  if (out->next != nullptr) {
    return absl::UnimplementedError(absl::StrCat(name, ": no chain element is known here"));
  }
  return absl::OkStatus();
}

}  // namespace lathe
