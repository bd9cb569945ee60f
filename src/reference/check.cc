#include "reference/check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace lathe::reference {

std::string check_memory(const Operand& d, bool starts_as_poison) {
  if (const std::string stray = d.stray_write(); !stray.empty()) return stray;
  const int64_t unwritten = starts_as_poison ? d.unwritten() : 0;
  return unwritten == 0 ? ""
                        : absl::StrFormat("%d of %d elements were never written", unwritten, d.elements());
}

std::vector<int64_t> choose(int64_t size, int64_t wanted, Normal* random) {
  std::vector<int64_t> chosen;
  if (wanted >= size) {
    for (int64_t i = 0; i < size; ++i) chosen.push_back(i);
    return chosen;
  }
  chosen = {0, size - 1};
  while (static_cast<int64_t>(chosen.size()) < wanted) chosen.push_back(random->below(size));
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

Dot dot(const float* a, const float* b, int64_t k) {
  double sum[4] = {}, magnitude[4] = {};  // four independent chains of additions, for speed
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      const double p = static_cast<double>(a[i + lane]) * b[i + lane];
      sum[lane] += p;
      magnitude[lane] += std::fabs(p);
    }
  }
  for (; i < k; ++i) {
    const double p = static_cast<double>(a[i]) * b[i];
    sum[0] += p;
    magnitude[0] += std::fabs(p);
  }
  return {sum[0] + sum[1] + sum[2] + sum[3], magnitude[0] + magnitude[1] + magnitude[2] + magnitude[3], 0};
}

}  // namespace lathe::reference
