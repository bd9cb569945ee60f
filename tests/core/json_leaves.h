// Walks a JSON value's leaves, so that a test over "every field" cannot forget a new one.
#pragma once

#include <functional>
#include <string>

#include "core/json.h"

namespace lathe {

// Calls visit(path, copy of `root` with that one leaf changed to another value of the same type) for every
// leaf.
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
      continue;  // an empty array or object: no field
    }
    visit(path, changed);
  }
}

}  // namespace lathe
