#include "reference/argmax.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_format.h"

namespace lathe::reference {

bool ArgmaxRequest::operator==(const ArgmaxRequest& o) const {
  const auto fields = [](const ArgmaxRequest& r) { return std::tie(r.rows, r.n, r.dtype); };
  return IndicesRequest::operator==(o) && fields(*this) == fields(o);
}

ArgmaxSpecs specs_of(const ArgmaxRequest& r) {
  ArgmaxSpecs specs;
  specs.x.dtype = r.dtype;
  specs.x.rows = r.rows;
  specs.x.columns = r.n;
  specs.x.padding = r.padding;
  specs.x.misalign = r.misalign;
  specs.indices.dtype = r.index_dtype;
  specs.indices.rows = 1;
  specs.indices.columns = r.rows;
  specs.indices.misalign = r.misalign;
  if (r.values) {
    specs.values = specs.indices;
    specs.values.dtype = LATHE_F32;
  }
  return specs;
}

CheckResult check_argmax(const ArgmaxRequest& r, const ArgmaxData& data) {
  CheckResult result;
  result.total = r.rows;
  result.what = check_memory(data.indices, true);
  if (result.what.empty() && r.values) {
    // Poison is NaN, and with special values a row's maximum may be NaN.
    result.what = check_memory(data.values, r.fill != Fill::kSpecial);
  }
  if (!result.what.empty()) return result;
  result.checked = r.rows;
  result.what = "every row";
  for (int64_t row = 0; row < r.rows; ++row) {
    int64_t best = 0;
    for (int64_t i = 0; i < r.n; ++i) {
      const double x = data.x.at(0, row, i), so_far = data.x.at(0, row, best);
      if (!std::isnan(so_far) && (std::isnan(x) || x > so_far)) best = i;
    }
    const double maximum = data.x.at(0, row, best);
    const int64_t got = data.indices.integer_at(0, 0, row);
    const double value = r.values ? data.values.at(0, 0, row) : maximum;
    const bool value_ok = value == maximum || (std::isnan(value) && std::isnan(maximum));
    if (got == best + r.index_offset && value_ok) continue;
    result.worst = std::numeric_limits<double>::infinity();
    result.what = absl::StrFormat("row %d: got index %d%s, but the maximum %.9g is at %d", row, got,
                                  r.values ? absl::StrFormat(" and value %.9g", value) : "", maximum,
                                  best + r.index_offset);
    return result;
  }
  result.ok = true;
  return result;
}

}  // namespace lathe::reference
