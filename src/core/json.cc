#include "core/json.h"

#include <cmath>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

// The JSON library copies, compares and prints values recursively, so deep nesting could overflow the stack.
constexpr int kMostDepth = 64;
void refuse_deep(int depth) {
  if (depth > kMostDepth)
    throw std::invalid_argument(absl::StrCat("nested more than ", kMostDepth, " levels deep"));
}

// An input iterator that counts the lines that the parser has read.
class LineCounter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCounter(const char* at, int64_t* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineCounter& operator++() {
    *line_ += *at_++ == '\n';
    return *this;
  }
  bool operator==(const LineCounter& o) const { return at_ == o.at_; }
  bool operator!=(const LineCounter& o) const { return at_ != o.at_; }

 private:
  const char* at_;
  int64_t* line_;
};

}  // namespace

absl::StatusOr<Json> parse_json(absl::string_view text, absl::string_view what) {
  return read_json(what, [&] {
    return Json::parse(text.begin(), text.end(), [](int depth, Json::parse_event_t, Json&) {
      refuse_deep(depth);
      return true;
    });
  });
}

absl::StatusOr<Json> parse_json_file(absl::string_view text, absl::string_view what) {
  int64_t line = 1;
  std::vector<std::set<std::string>> open;  // the keys so far of each enclosing object
  std::string twice;
  const auto see = [&](int depth, Json::parse_event_t event, Json& parsed) {
    refuse_deep(depth);
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second &&
        twice.empty())
      twice = absl::StrCat(what, ":", line, ": duplicate key '", parsed.get<std::string>(), "'");
    return true;
  };
  absl::StatusOr<Json> json = read_json(what, [&] {
    return Json::parse(LineCounter(text.data(), &line), LineCounter(text.data() + text.size(), &line), see);
  });
  if (json.ok() && !twice.empty()) return absl::InvalidArgumentError(twice);
  return json;
}

int64_t int_field(const Json& j, const char* name, int64_t lo, int64_t hi) {
  const Json& value = j.at(name);
  if (!value.is_number_integer())
    throw std::invalid_argument(absl::StrCat("\"", name, "\" is not an integer"));
  // An unsigned value above INT64_MAX would wrap to a negative one.
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    throw std::out_of_range(absl::StrCat("\"", name, "\" ", value.get<uint64_t>(), " > ", hi));
  const int64_t number = value.get<int64_t>();
  if (number < lo || number > hi)
    throw std::out_of_range(absl::StrCat("\"", name, "\" ", number, " is not in [", lo, ", ", hi, "]"));
  return number;
}

double number_field(const Json& j, const char* name) {
  const Json& value = j.at(name);
  if (!value.is_number()) throw std::invalid_argument(absl::StrCat("\"", name, "\" is not a number"));
  const double number = value.get<double>();
  if (!std::isfinite(number)) throw std::out_of_range(absl::StrCat("\"", name, "\" is not finite"));
  return number;
}

std::string text_field(const Json& j, const char* name) {
  const Json& value = j.at(name);
  if (!value.is_string()) throw std::invalid_argument(absl::StrCat("\"", name, "\" is not a string"));
  return value.get<std::string>();
}

void expect_fields(const Json& j, size_t count) {
  if (!j.is_object()) throw std::invalid_argument("not an object");
  if (j.size() != count) throw std::invalid_argument(absl::StrCat(j.size(), " fields, expected ", count));
}

std::string canonical_text(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace lathe
