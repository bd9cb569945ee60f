#include "reference/judge.h"

#include <chrono>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lathe::reference {
namespace {

// The error of an element, as a fraction of the allowed error.
double part_of(double error, double granted) {
  return error == 0 ? 0 : std::isfinite(error) && granted > 0 ? error / granted : INFINITY;
}

double granted_of(const Number& wanted, lathe_dtype dtype) {
  if (is_integer(dtype)) return wanted.slack;
  return 4 * wanted.slack + 2 * rounding(dtype) * std::fabs(wanted.v) + smallest_rounding(dtype);
}

double compare_floats(double got, const Number& wanted, lathe_dtype dtype) {
  const double granted = granted_of(wanted, dtype), beyond = overflow_of(dtype, wanted.v);
  const auto is = [&](double x) { return got == x || (std::isnan(got) && std::isnan(x)); };
  if (is(wanted.v) || (std::fabs(wanted.v) + granted >= largest(dtype) && is(beyond))) return 0;
  return part_of(std::fabs(got - wanted.v), granted);
}

double compare(const void* elements, lathe_dtype dtype, int64_t at, const Number& wanted) {
  if (!is_integer(dtype)) return compare_floats(load(elements, dtype, at), wanted, dtype);
  return part_of(distance(load_integer(elements, dtype, at), wanted.i), wanted.slack);
}

std::string words(const void* elements, lathe_dtype dtype, int64_t at, const Number& wanted) {
  const double granted = granted_of(wanted, dtype);
  const std::string slack = granted > 0 ? absl::StrFormat(" (allowed error %.3g)", granted) : "";
  if (is_integer(dtype))
    return absl::StrFormat("%d; the payload says %d%s", load_integer(elements, dtype, at), wanted.i, slack);
  return absl::StrFormat("%.9g; the payload says %.9g%s", load(elements, dtype, at), wanted.v, slack);
}

}  // namespace

Judgement judge(Evaluator* evaluator, int64_t value, const void* elements, lathe_dtype dtype,
                const std::vector<int64_t>& shape, double seconds, Normal* random) {
  Judgement j;
  j.total = *elements_in(shape);
  const auto start = std::chrono::steady_clock::now();
  std::vector<int64_t> index;
  const auto check = [&](int64_t at) {
    set_index(shape, at, &index);
    const Number wanted = evaluator->at(value, index);
    const double part = compare(elements, dtype, at, wanted);
    ++j.judged;
    if (part <= j.worst) return;
    j.worst = part;
    j.what = absl::StrFormat("[%s] is %s", absl::StrJoin(index, ", "), words(elements, dtype, at, wanted));
    j.ok = part <= 1;
  };
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds;
  };
  if (j.total <= 4096) {
    // The step spreads the checks over the whole tensor, in case the time ends early. 7919 is a prime above 4096.
    for (int64_t i = 0; i < j.total && (i < 2 || !spent()); ++i) check(i * 7919 % j.total);
    return j;
  }
  check(0);
  check(j.total - 1);
  while (j.judged < 4096 && !spent()) check(random->below(j.total));
  return j;
}

}  // namespace lathe::reference
