// Reads the fields of a model's config.json and adds the defaults of its class in transformers. A wrong field
// throws std::invalid_argument, which layers_of turns into a status.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/model_families.h"

namespace lathe::models {

class ModelConfig {
 public:
  static constexpr int64_t kEveryLayer = -1;

  // `given` is the language model's object. A null field counts as absent, except family.meaningful_null.
  ModelConfig(const Family& family, const nlohmann::json& given);

  // A nullptr name is an absent field. If `layer` is given, a field may be a list with one value per layer;
  // extra layers (multi-token prediction) take the last value.
  bool has(const char* name) const { return find(name) != nullptr; }
  int64_t size(const char* name, int64_t layer = kEveryLayer);                            // at least 1
  int64_t count(const char* name, int64_t otherwise, int64_t layer = kEveryLayer) const;  // at least 0
  bool flag(const char* name, bool otherwise, int64_t layer = kEveryLayer) const;
  std::string word(const char* name, int64_t layer) const;  // "": the field is absent
  // Whether the list contains this layer's number.
  bool lists(const char* name, int64_t layer) const;
  bool is_list(const char* name) const { return has(name) && find(name)->is_array(); }

  // "hidden_size 4096", ...: the sizes read so far that the config leaves out.
  const std::vector<std::string>& filled_in() const { return filled_in_; }

 private:
  const nlohmann::json* find(const char* name) const;
  const nlohmann::json* find(const char* name, int64_t layer) const;

  nlohmann::json given_, whole_;
  std::vector<std::string> filled_in_;
};

constexpr int64_t kLargestSize = INT32_MAX;

// size / divisor. Throws if there is a remainder: "intermediate size 100 cannot be split over 3 ranks".
int64_t divide(const std::string& what, int64_t size, int64_t divisor, const std::string& by);
// a * b. Throws if the product is above kLargestSize.
int64_t times(int64_t a, int64_t b);

}  // namespace lathe::models
