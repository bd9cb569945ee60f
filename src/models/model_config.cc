#include "models/model_config.h"

#include <algorithm>
#include <stdexcept>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace lathe::models {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

int64_t whole_number(const char* name, const Json& value, int64_t lowest) {
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(lowest) ||
      value.get<double>() > static_cast<double>(kLargestSize))
    refuse(absl::StrCat("\"", name, "\" is not a whole number from ", lowest, " to ", kLargestSize));
  return value.get<int64_t>();
}

// transformers writes the number of experts under any of these names.
constexpr const char* kExpertCounts[] = {"num_experts", "num_local_experts", "n_routed_experts"};

}  // namespace

ModelConfig::ModelConfig(const Family& family, const Json& given) : whole_(Json::parse(family.defaults)) {
  given_ = Json::object();
  for (const auto& [name, value] : given.items()) {
    const bool says_none =
        value.is_null() && family.meaningful_null != nullptr && name == family.meaningful_null;
    if (says_none) whole_.erase(name);
    if (!value.is_null()) given_[name] = value;
  }
  if (family.expert_count != nullptr && !given_.contains(family.expert_count)) {
    for (const char* other : kExpertCounts)
      if (given_.contains(other)) given_[family.expert_count] = Json(given_[other]);
  }
  whole_.update(given_);
}

const Json* ModelConfig::find(const char* name) const {
  if (name == nullptr) return nullptr;
  const auto at = whole_.find(name);
  return at == whole_.end() ? nullptr : &*at;
}

const Json* ModelConfig::find(const char* name, int64_t layer) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_array() || layer == kEveryLayer) return value;
  if (value->empty()) refuse(absl::StrCat("\"", name, "\" is an empty list"));
  const int64_t layers = count("num_hidden_layers", 0), entries = static_cast<int64_t>(value->size());
  if (entries < layers)
    refuse(absl::StrCat("\"", name, "\" has ", entries, " entries for ", layers, " layers"));
  return &(*value)[static_cast<size_t>(std::min(layer, entries - 1))];
}

int64_t ModelConfig::size(const char* name, int64_t layer) {
  const Json* value = find(name, layer);
  if (value == nullptr) refuse(absl::StrCat("\"", name, "\" is missing"));
  const int64_t size = whole_number(name, *value, 1);
  const std::string filled = absl::StrCat(name, " ", size);
  if (!given_.contains(name) && !absl::c_linear_search(filled_in_, filled)) filled_in_.push_back(filled);
  return size;
}

int64_t ModelConfig::count(const char* name, int64_t otherwise, int64_t layer) const {
  const Json* value = find(name, layer);
  return value == nullptr ? otherwise : whole_number(name, *value, 0);
}

bool ModelConfig::flag(const char* name, bool otherwise, int64_t layer) const {
  const Json* value = find(name, layer);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number_integer()) return value->get<int64_t>() != 0;
  refuse(absl::StrCat("\"", name, "\" is neither true nor false"));
}

std::string ModelConfig::word(const char* name, int64_t layer) const {
  const Json* value = find(name, layer);
  if (value == nullptr) return "";
  if (!value->is_string()) refuse(absl::StrCat("\"", name, "\" is not a list of words"));
  return value->get<std::string>();
}

bool ModelConfig::lists(const char* name, int64_t layer) const {
  const Json* value = find(name);
  if (value == nullptr) return false;
  if (!value->is_array()) refuse(absl::StrCat("\"", name, "\" is not a list"));
  return std::any_of(value->begin(), value->end(),
                     [&](const Json& entry) { return whole_number(name, entry, 0) == layer; });
}

int64_t divide(const std::string& what, int64_t size, int64_t divisor, const std::string& by) {
  if (size % divisor != 0) refuse(absl::StrCat(what, " ", size, " cannot be split over ", divisor, " ", by));
  return size / divisor;
}

int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kLargestSize)
    refuse(absl::StrCat("a layer of ", a, " x ", b, " columns is too large"));
  return product;
}

}  // namespace lathe::models
