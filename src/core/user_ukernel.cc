#include "core/user_ukernel.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <stdexcept>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "core/json_object.h"

namespace lathe {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostRegister = 4096, kMostShared = int64_t{1} << 30;

Json to_json(const SizeRange& r) {
  return json_object("least", r.least, "most", r.most, "multiple", r.multiple);
}

SizeRange range_from(const Json& j) {
  expect_fields(j, 3);
  return {int_field(j, "least", 0, kMost), int_field(j, "most", 0, kMost),
          int_field(j, "multiple", 1, kMost)};
}

double seconds_field(const Json& j, const char* name) {
  const double seconds = number_field(j, name);
  if (!(seconds >= 0 && seconds <= 1e6))
    throw std::invalid_argument(absl::StrCat(name, " is not in [0, 1e6]"));
  return seconds;
}

template <typename T>
T named(const Json& j, const char* field, std::initializer_list<T> values) {
  const std::string name = text_field(j, field);
  for (T value : values)
    if (name_of(value) == name) return value;
  throw std::invalid_argument(absl::StrCat(field, " '", name, "' is not supported for user ukernels"));
}

}  // namespace

Json to_json(const UserUkernel& u) {
  return json_object("name", u.name, "op", std::string(name_of(u.op)), "dtype", std::string(name_of(u.a)),
                     "target", to_json(u.target), "function", u.function, "attributes", u.attributes, "shape",
                     json_object("m", to_json(u.m), "n", to_json(u.n), "k", to_json(u.k)), "tiling",
                     json_object("register_m", u.register_m, "register_n", u.register_n, "group", u.group),
                     "shared_bytes", u.shared_bytes, "cost",
                     json_object("fixed_seconds", u.fixed_seconds, "seconds_per_flop", u.seconds_per_flop,
                                 "seconds_per_byte", u.seconds_per_byte),
                     "digest", u.digest);
}

absl::StatusOr<UserUkernel> user_ukernel_from_json(const Json& j) {
  return read_json("ukernel", [&] {
    expect_fields(j, 11);
    UserUkernel u;
    u.name = text_field(j, "name");
    if (std::string refusal = name_refusal(u.name); !refusal.empty()) throw std::invalid_argument(refusal);
    u.op = named(j, "op", {Op::kMatmul, Op::kArgmax});
    u.a = named(j, "dtype", {DType::kF32, DType::kF16, DType::kBF16, DType::kI8});
    absl::StatusOr<Target> target = target_from_json(j.at("target"));
    if (!target.ok()) throw std::invalid_argument(std::string(target.status().message()));
    u.target = *target;
    u.function = text_field(j, "function");
    u.attributes = text_field(j, "attributes");
    expect_fields(j.at("shape"), 3);
    u.m = range_from(j["shape"].at("m")), u.n = range_from(j["shape"].at("n")),
    u.k = range_from(j["shape"].at("k"));
    expect_fields(j.at("tiling"), 3);
    u.register_m = int_field(j["tiling"], "register_m", 0, kMostRegister);
    u.register_n = int_field(j["tiling"], "register_n", 0, kMostRegister);
    u.group = text_field(j["tiling"], "group");
    const bool has_group = u.target.backend != Backend::kCpu;
    if (has_group ? u.group != "wave" && u.group != "block" : !u.group.empty())
      throw std::invalid_argument(absl::StrCat("group '", u.group, "': expected ",
                                               has_group ? "wave or block" : "none for a CPU target"));
    u.shared_bytes = int_field(j, "shared_bytes", 0, kMostShared);
    expect_fields(j.at("cost"), 3);
    u.fixed_seconds = seconds_field(j["cost"], "fixed_seconds");
    u.seconds_per_flop = seconds_field(j["cost"], "seconds_per_flop");
    u.seconds_per_byte = seconds_field(j["cost"], "seconds_per_byte");
    u.digest = text_field(j, "digest");
    return u;
  });
}

std::string name_refusal(absl::string_view name) {
  const auto fits = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '_';
  };
  if (!name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), fits)) return "";
  return absl::StrCat("'", absl::CHexEscape(name.substr(0, 80)),
                      "' is not a valid ukernel name: use 1 to 64 lower-case letters, digits, '-' and '_'");
}

std::string bitcode_digest(absl::string_view bitcode) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bitcode.data(), bitcode.size()));
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest)));
}

}  // namespace lathe
