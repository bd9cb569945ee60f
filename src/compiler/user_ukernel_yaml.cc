// Parses the YAML description of a user's ukernel.
#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "compiler/user_ukernel.h"
#include "compiler/yaml_reader.h"
#include "core/amd_targets.h"

namespace lathe {
namespace {

using Node = YamlReader::Node;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

class DescriptionReader {
 public:
  explicit DescriptionReader(absl::string_view yaml) : yaml_("description, line ", yaml) {
    u_.target.backend = Backend::kCpu;
  }

  absl::StatusOr<UserUkernel> read() {
    const absl::Status status = yaml_.read(
        "a ukernel's description",
        [&](const std::string& key, int line, Node* value) { read_key(key, line, value); },
        [&] { check_whole(); });
    if (!status.ok()) return status;
    return std::move(u_);
  }

 private:
  void read_key(const std::string& key, int line, Node* value) {
    lines_[key] = line;
    if (key == "name") {
      u_.name = text(key, line, value);
      if (std::string refusal = name_refusal(u_.name); !refusal.empty()) yaml_.fail(line, refusal);
    } else if (key == "op") {
      const std::string op = text(key, line, value);
      if (!parse_one({Op::kMatmul, Op::kArgmax}, op, &u_.op))
        yaml_.fail(line, absl::StrCat("op '", op, "' does not support user ukernels; use matmul or argmax"));
    } else if (key == "dtype") {
      const std::string dtype = text(key, line, value);
      if (!parse_one({DType::kF32, DType::kF16, DType::kBF16, DType::kI8}, dtype, &u_.a))
        yaml_.fail(line, absl::StrCat("dtype '", dtype,
                                      "' is not supported; use f32, f16, bf16, or i8 (matmul only)"));
    } else if (key == "function") {
      u_.function = text(key, line, value);
    } else if (key == "attributes") {
      u_.attributes = text(key, line, value);
    } else if (key == "target") {
      yaml_.each(value, "'target'", [&](const std::string& k, int l, Node* v) { read_target(k, l, v); });
    } else if (key == "shape") {
      yaml_.each(value, "'shape'", [&](const std::string& k, int l, Node* v) { read_shape(k, l, v); });
    } else if (key == "tiling") {
      yaml_.each(value, "'tiling'", [&](const std::string& k, int l, Node* v) { read_tiling(k, l, v); });
    } else if (key == "cost") {
      yaml_.each(value, "'cost'", [&](const std::string& k, int l, Node* v) { read_cost(k, l, v); });
    } else {
      unknown(key, line, "name, op, dtype, function, attributes, target, shape, tiling and cost");
    }
  }

  void read_target(const std::string& key, int line, Node* value) {
    if (key == "arch") {
      u_.target.arch = text(key, line, value);
      if (!find_backend(&u_.target))
        yaml_.fail(
            line, absl::StrCat("arch '", u_.target.arch,
                               "' does not support user ukernels; use x86-64, aarch64, sm_75 or later, or an "
                               "AMD gfx9, gfx11 or gfx12"));
    } else if (key == "features") {
      std::string features;
      const auto take = [&](Node* feature) {
        const std::string name = text("features", line, feature);
        if (!std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '.'; }))
          yaml_.fail(line, absl::StrCat("'features': '", name, "' is not a feature name such as avx2"));
        absl::StrAppend(&features, features.empty() ? "+" : ",+", name);
      };
      if (!yaml_.items(value, take)) return yaml_.fail(line, "'features' is not a list such as [avx2, fma]");
      absl::StatusOr<std::string> canonical = canonical_features(features);
      if (!canonical.ok())
        return yaml_.fail(line, absl::StrCat("'features': ", canonical.status().message()));
      u_.target.features = *std::move(canonical);
    } else {
      unknown(key, line, "arch and features");
    }
  }

  void read_shape(const std::string& key, int line, Node* value) {
    SizeRange* range = key == "m" ? &u_.m : key == "n" ? &u_.n : key == "k" ? &u_.k : nullptr;
    if (!range) return unknown(key, line, "m, n and k");
    if (range != &u_.n) first_of_matmul(line, absl::StrCat("shape '", key, "'"));
    yaml_.each(value, absl::StrCat("'", key, "'"), [&](const std::string& bound, int at, Node* v) {
      if (bound == "least")
        range->least = whole(bound, at, v, 0, kMost);
      else if (bound == "most")
        range->most = whole(bound, at, v, 0, kMost);
      else if (bound == "multiple")
        range->multiple = whole(bound, at, v, 1, kMost);
      else
        unknown(bound, at, "least, most and multiple");
    });
    if (range->most < range->least)
      yaml_.fail(line,
                 absl::StrCat("'", key, "': least ", range->least, " is greater than most ", range->most));
  }

  static bool find_backend(Target* target) {
    const bool is_cpu = target->arch == "x86-64" || target->arch == "aarch64";
    const bool is_amd = find_amd_gpu(target->arch) != nullptr || is_amd_generic(target->arch);
    target->backend = is_cpu ? Backend::kCpu : is_amd ? Backend::kRocm : Backend::kCuda;
    return is_cpu || is_amd || sm_version(*target) >= 75;
  }

  void read_tiling(const std::string& key, int line, Node* value) {
    if (key == "group") {
      u_.group = text(key, line, value);
      if (u_.group != "wave" && u_.group != "block")
        yaml_.fail(line, absl::StrCat("'group': '", u_.group, "' is not wave or block"));
      return;
    }
    first_of_matmul(line, absl::StrCat("tiling '", key, "'"));
    int64_t* size = key == "register_m" ? &u_.register_m : key == "register_n" ? &u_.register_n : nullptr;
    if (!size) return unknown(key, line, "register_m, register_n and group");
    *size = whole(key, line, value, 1, 4096);
  }

  void read_cost(const std::string& key, int line, Node* value) {
    double* seconds = key == "fixed_seconds"      ? &u_.fixed_seconds
                      : key == "seconds_per_flop" ? &u_.seconds_per_flop
                      : key == "seconds_per_byte" ? &u_.seconds_per_byte
                                                  : nullptr;
    if (!seconds) return unknown(key, line, "fixed_seconds, seconds_per_flop and seconds_per_byte");
    const std::string number = text(key, line, value);
    if (!absl::SimpleAtod(number, seconds) || !(*seconds >= 0 && *seconds <= 1e6))
      yaml_.fail(line, absl::StrCat("'", key, "': '", number, "' is not a number of seconds from 0 to 1e6"));
  }

  void check_whole() {
    for (const char* key : {"name", "op", "dtype", "function", "target", "cost"})
      if (!lines_.count(key)) yaml_.fail(1, absl::StrCat("'", key, "' is missing"));
    if (u_.target.arch.empty())
      yaml_.fail(lines_["target"], "'target' has no 'arch', such as x86-64, aarch64, sm_80 or gfx942");
    if (u_.fixed_seconds + u_.seconds_per_flop + u_.seconds_per_byte <= 0)
      yaml_.fail(lines_["cost"], "'cost': the sum of its values must be greater than 0");
    check_group();
    if (u_.op == Op::kMatmul) {
      if (u_.register_m < 1 || u_.register_n < 1)
        yaml_.fail(lines_["tiling"], "a matmul's 'tiling' needs register_m and register_n");
      return;
    }
    if (of_matmul_line_ > 0)
      yaml_.fail(of_matmul_line_, of_matmul_ + " is only for matmul; argmax has only 'n'");
    if (u_.a == DType::kI8) yaml_.fail(lines_["dtype"], "dtype 'i8' is only for matmul");
  }

  void check_group() {
    const bool on_gpu = u_.target.backend != Backend::kCpu;
    if (on_gpu && u_.op == Op::kMatmul)
      yaml_.fail(lines_["op"], "op 'matmul' does not support user ukernels on GPUs; use argmax");
    if (on_gpu && u_.group.empty())
      yaml_.fail(
          lines_.count("tiling") ? lines_["tiling"] : 1,
          "'tiling' needs group for a GPU: wave or block, the threads that call the function together");
    if (!on_gpu && !u_.group.empty()) yaml_.fail(lines_["tiling"], "'group' is only for GPUs");
    if (on_gpu && !u_.target.features.empty())
      yaml_.fail(lines_["target"], "'features' is only for CPUs; the arch of a GPU implies its features");
    if (on_gpu && !absl::StrContains(absl::StrCat(" ", u_.attributes, " "), " alwaysinline "))
      yaml_.fail(lines_.count("attributes") ? lines_["attributes"] : 1,
                 "'attributes' must contain alwaysinline for a GPU, because its kernels have no call stack");
  }

  void first_of_matmul(int line, const std::string& what) {
    if (of_matmul_line_ == 0) of_matmul_line_ = line, of_matmul_ = what;
  }
  void unknown(const std::string& key, int line, const char* known) {
    yaml_.fail(line, absl::StrCat("unknown key '", key, "'; known: ", known));
  }
  std::string text(const std::string& key, int line, Node* value) {
    return yaml_.scalar(value, line, absl::StrCat("'", key, "'"));
  }
  int64_t whole(const std::string& key, int line, Node* value, int64_t least, int64_t most) {
    const std::string number = text(key, line, value);
    int64_t x = 0;
    if (!absl::SimpleAtoi(number, &x) || x < least || x > most)
      yaml_.fail(line, absl::StrCat("'", key, "': '", number, "' is not a whole number of at least ", least,
                                    most == kMost ? "" : absl::StrCat(" and at most ", most)));
    return x;
  }
  template <typename T>
  static bool parse_one(std::initializer_list<T> values, absl::string_view name, T* out) {
    for (T value : values)
      if (name_of(value) == name) return *out = value, true;
    return false;
  }

  YamlReader yaml_;
  UserUkernel u_;
  std::map<std::string, int> lines_;  // the line of each key that is present
  int of_matmul_line_ = 0;            // the first line with a key that is only for matmul; 0: none
  std::string of_matmul_;
};

}  // namespace

absl::StatusOr<UserUkernel> parse_user_ukernel(absl::string_view yaml) {
  return DescriptionReader(yaml).read();
}

}  // namespace lathe
