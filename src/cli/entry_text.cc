#include "cli/entry_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/plan_text.h"

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
  if (op == "elementwise")
    return absl::StrCat(op, " ", c.value("d", "?"), " program ", c.value("program", "?").substr(0, 8));
  const std::string b = c.value("b", dtype),
                    library = object_of(object_of(key, "config"), "external").value("library", "");
  return absl::StrCat(op, " ", dtype, b == dtype ? "" : absl::StrCat(" by ", b), " ",
                      c.value("trans_a", 0) ? "t" : "n", c.value("trans_b", 0) ? "t" : "n",
                      c.value("packed_b", 0) ? " packed" : "",
                      library.empty() ? "" : absl::StrCat(" by ", library), " m ",
                      range(size("m_lo"), size("m_hi")), " n ", size("n"), " k ", size("k"));
}

std::string record_line(const Json& record) {
  std::string out =
      absl::StrCat(record.value("kind", "?"), "  ", target_of(record), "  ", class_of(record), "  ",
                   config_line(object_of(record, "config"), record.value("splits", int64_t{1})));
  const Json measured = record.value("measured", Json::array());
  double first = 0, winner = 0;
  for (const Json& m : measured) {
    if (first == 0) first = m.value("measured_seconds", 0.0);
    if (m.value("config", Json()) == record.value("config", Json()) &&
        m.value("splits", 0) == record.value("splits", 0))
      winner = m.value("measured_seconds", 0.0);
  }
  if (winner > 0)
    absl::StrAppend(&out, "  ", duration(winner),
                    absl::StrFormat(", %.2fx the oracle's choice", first / winner), " on ",
                    record.value("device", "?"));
  return out;
}

double compile_milliseconds(const Json& entry) {
  const Json metadata = object_of(entry, "metadata");
  const auto found = metadata.find("compile_milliseconds");
  return found != metadata.end() && found->is_number() ? found->get<double>() : 0;
}

std::string assembler_of(const Json& entry) {
  const Json metadata = object_of(entry, "metadata");
  const auto found = metadata.find("assembler");
  return found != metadata.end() && found->is_string() ? absl::StrCat(" (", found->get<std::string>(), ")")
                                                       : "";
}

std::string age_text(int64_t seconds) {
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 2 * 3600) return absl::StrCat(seconds / 60, " min");
  if (seconds < 2 * 86400) return absl::StrCat(seconds / 3600, " h");
  return absl::StrCat(seconds / 86400, " days");
}

}  // namespace lathe::cli
