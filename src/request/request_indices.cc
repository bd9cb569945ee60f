#include "request/request_indices.h"

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

bool check_output(const char* name, const Region& output, std::initializer_list<NamedRegion> inputs,
                  absl::Status* why) {
  for (const NamedRegion& input : inputs)
    if (!known_disjoint(output, *input.region))
      return refuse(why, absl::InvalidArgumentError(absl::StrCat(name, " overlaps ", input.name)));
  return true;
}

}  // namespace

absl::Status explain_index_dtype(const lathe_dtype& t) {
  return absl::InvalidArgumentError(absl::StrCat("index_dtype ", raw(t), " is neither i32 nor i64"));
}

bool check_outputs(const void* indices, const float* values, const Request& request,
                   std::initializer_list<NamedRegion> inputs, absl::Status* why) {
  if (indices == nullptr) return refuse(why, absl::InvalidArgumentError("indices is NULL"));
  const Region index_line = line_at(indices, index_bytes(request));
  if (!check_output("indices", index_line, inputs, why)) return false;
  if (values == nullptr) return true;
  const Region value_line = line_at(values, value_bytes(request));
  if (!check_output("values", value_line, inputs, why)) return false;
  return check_output("values", value_line, {{"indices", &index_line}}, why);
}

}  // namespace lathe
