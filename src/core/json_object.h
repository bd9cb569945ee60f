// Builds JSON objects and arrays field by field. The library's initializer lists are not used because they
// leak: when an allocation fails, the constructor throws and nothing destroys the partly built object.
#pragma once

#include <utility>

#include "core/json.h"

namespace lathe {

inline void set_fields(Json* /*object*/) {}
template <typename Value, typename... Rest>
void set_fields(Json* object, const char* name, Value&& value, Rest&&... rest) {
  Json field(std::forward<Value>(value));
  (*object)[name] = std::move(field);
  set_fields(object, std::forward<Rest>(rest)...);
}

// json_object("m", 7, "layout", "nt") is {"m": 7, "layout": "nt"}.
template <typename... Fields>
Json json_object(Fields&&... names_and_values) {
  static_assert(sizeof...(Fields) % 2 == 0, "json_object takes pairs of a name and a value");
  Json object(Json::value_t::object);
  set_fields(&object, std::forward<Fields>(names_and_values)...);
  return object;
}

// json_array(1, "x") is [1, "x"].
template <typename... Values>
Json json_array(Values&&... values) {
  Json array(Json::value_t::array);
  (array.push_back(Json(std::forward<Values>(values))), ...);
  return array;
}

}  // namespace lathe
