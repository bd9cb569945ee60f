// Visits all leaves of a JSON value, so that a test of every field includes new fields automatically.
#pragma once

#include <functional>
#include <string>

#include "core/json.h"

namespace lathe {

// For every leaf, calls visit(path, copy), where the leaf of the copy of `root` has another value of the same
// type.
inline void for_each_changed_leaf(const Json& root,
                                  const std::function<void(const std::string&, const Json&)>& visit) {
  const Json leaves = root.flatten();
  for (const auto& [path, leaf] : leaves.items()) {
    Json changed = root;
    Json& target = changed[Json::json_pointer(path)];
    if (leaf.is_string()) {
      target = leaf.get<std::string>() + "x";
    } else if (leaf.is_number()) {
      target = leaf.get<int64_t>() + 1;
    } else {
      continue;  // an empty array or object is not a field
    }
    visit(path, changed);
  }
}

}  // namespace lathe
