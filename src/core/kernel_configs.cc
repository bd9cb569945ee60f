#include "core/kernel_configs.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/json_object.h"

namespace lathe {
namespace {

// visit(field, value) for every field of a config, in the order of its list.
#define LATHE_VISIT(name, letter, initial, least, most, meaning)                          \
  {                                                                                       \
    static constexpr ConfigField kField = {#name, letter, initial, least, most, meaning}; \
    visit(kField, config.name);                                                           \
  }
#define LATHE_FAMILY(family, name, fields, ...)                                                     \
  template <typename Visit>                                                                         \
  void visit_fields([[maybe_unused]] family##Config& config, [[maybe_unused]] const Visit& visit) { \
    fields(LATHE_VISIT)                                                                             \
  }
LATHE_CONFIG_FAMILIES(LATHE_FAMILY)
#undef LATHE_FAMILY
#undef LATHE_VISIT

// A new config of each family.
template <size_t... kIndices>
AnyConfig new_config(ConfigFamily family, std::index_sequence<kIndices...> /*families*/) {
  AnyConfig config;
  ((static_cast<size_t>(family) == kIndices ? (void)config.emplace<kIndices>() : void()), ...);
  return config;
}

// Whether one family covers each op and backend of every kernel.
constexpr bool covers_every_kernel() {
  for (const KernelRow& kernel : kKernels)
    for (const OpRow& op : ops::kRows)
      for (Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kRocm, Backend::kSpirv}) {
        int families = 0;
        for (const FamilyRow& family : kConfigFamilies)
          families += family.covers(kernel.kind, op.op, backend);
        if (kernel.serves(op.op, backend) && families != 1) return false;
      }
  return true;
}
static_assert(covers_every_kernel(),
              "LATHE_CONFIG_FAMILIES lacks a kernel of core/kernels.h, or has it twice");

}  // namespace

bool parse(absl::string_view name, ConfigFamily* out) {
  for (size_t i = 0; i < std::size(kConfigFamilies); ++i)
    if (name == kConfigFamilies[i].name) {
      *out = static_cast<ConfigFamily>(i);
      return true;
    }
  return false;
}

KernelConfig::KernelConfig(ConfigFamily family, KernelKind kernel)
    : config_(new_config(family, std::make_index_sequence<std::variant_size_v<AnyConfig>>())) {
  std::visit([&](auto& config) { config.kernel = kernel; }, config_);
}

KernelKind KernelConfig::kernel() const {
  return std::visit([](const auto& config) { return config.kernel; }, config_);
}

#define LATHE_SHARED(name, otherwise) \
  int64_t KernelConfig::name() const { return LATHE_READ_FIELD(*this, name, otherwise); }
LATHE_SHARED_FIELDS(LATHE_SHARED)
#undef LATHE_SHARED

std::vector<FieldValue> KernelConfig::fields() const {
  std::vector<FieldValue> all;
  AnyConfig copy = config_;
  const auto add = [&](const ConfigField& field, int64_t value) { all.push_back({&field, value}); };
  std::visit([&](auto& config) { visit_fields(config, add); }, copy);
  return all;
}

bool KernelConfig::set(absl::string_view name, int64_t value) {
  bool found = false;
  const auto change = [&](const ConfigField& field, int64_t& member) {
    if (name != field.name) return;
    member = value;
    found = true;
  };
  std::visit([&](auto& config) { visit_fields(config, change); }, config_);
  return found;
}

ConfigFamily family_of(KernelKind kernel, Op op, Backend backend) {
  for (size_t i = 0; i < std::size(kConfigFamilies); ++i)
    if (kConfigFamilies[i].covers(kernel, op, backend)) return static_cast<ConfigFamily>(i);
  return ConfigFamily::kNone;
}

std::string refusal_of(const KernelConfig& config, Op op, Backend backend) {
  const ConfigFamily family = family_of(config.kernel(), op, backend);
  if (!row_of(config.kernel()).serves(op, backend))
    return absl::StrCat("kernel '", name_of(config.kernel()), "' does not compute ", name_of(op), " on ",
                        name_of(backend));
  if (family == config.family()) return "";
  return absl::StrCat("kernel '", name_of(config.kernel()), "' has a config of family '", name_of(family),
                      "' for ", name_of(op), " on ", name_of(backend), ", not '", name_of(config.family()),
                      "'");
}

std::string defect_of(const KernelConfig& config) {
  for (const FieldValue& f : config.fields())
    if (f.value < f.field->least || f.value > f.field->most)
      return absl::StrCat(f.field->name, " is ", f.value, ", not ", f.field->least, " to ", f.field->most);
  return "";
}

std::string name_of_numbers(const KernelConfig& config) {
  std::string all, joined;  // `joined`: numbers that are written with "x" between them
  bool is_initial = true;   // all of them are
  const auto flush = [&] {
    if (!is_initial) all += joined;
    joined.clear();
    is_initial = true;
  };
  for (const FieldValue& f : config.fields()) {
    const absl::string_view letter = f.field->letter;
    if (letter != "x") {
      flush();
      joined = "_";
    }
    is_initial &= f.value == f.field->initial;
    if (letter != "x" || f.value != 0) absl::StrAppend(&joined, letter, f.value);
  }
  flush();
  return all;
}

Json describe_fields(const KernelConfig& config) {
  Json fields = Json::array();
  for (const FieldValue& f : config.fields())
    fields.push_back(json_object("name", f.field->name, "value", f.value, "meaning", f.field->meaning));
  return fields;
}

}  // namespace lathe
