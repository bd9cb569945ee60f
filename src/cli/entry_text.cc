#include "cli/entry_text.h"

#include "absl/strings/str_cat.h"

namespace lathe::cli {
namespace {

std::string range(int64_t lo, int64_t hi) {
  if (hi == lo) return absl::StrCat(lo);
  return absl::StrCat(lo, "..", hi == INT32_MAX ? "" : absl::StrCat(hi));
}

}  // namespace

Json object_of(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_object() ? *found : Json::object();
}

std::string target_of(const Json& key) {
  const Json target = object_of(key, "target");
  return absl::StrCat(target.value("backend", "?"), " ", target.value("arch", "?"));
}

std::string op_of(const Json& key) { return object_of(key, "class").value("op", "?"); }

std::string class_of(const Json& key) {
  const Json c = object_of(key, "class");
  const std::string op = c.value("op", "?"), dtype = c.value("a", "?");
  const auto size = [&](const char* name) { return c.value(name, int64_t{0}); };
  if (op == "argmax") return absl::StrCat(op, " ", dtype, " row ", range(size("row_lo"), size("row_hi")));
  return absl::StrCat(op, " ", dtype, " ", c.value("trans_a", 0) ? "t" : "n",
                      c.value("trans_b", 0) ? "t" : "n", " m ", range(size("m_lo"), size("m_hi")), " n ",
                      size("n"), " k ", size("k"));
}

double compile_milliseconds(const Json& entry) {
  const Json metadata = object_of(entry, "metadata");
  const auto found = metadata.find("compile_milliseconds");
  return found != metadata.end() && found->is_number() ? found->get<double>() : 0;
}

std::string age_text(int64_t seconds) {
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 2 * 3600) return absl::StrCat(seconds / 60, " min");
  if (seconds < 2 * 86400) return absl::StrCat(seconds / 3600, " h");
  return absl::StrCat(seconds / 86400, " days");
}

}  // namespace lathe::cli
