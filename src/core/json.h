// The one place that includes the JSON library. Objects sort their keys, so dump() is canonical.
#pragma once

#include <memory>
#include <new>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

// As std::allocator. It makes Json a type of Lathe's own, which another user of the library in the process,
// with or without what follows, cannot be confused with.
template <typename T>
struct JsonAllocator {
  using value_type = T;
  JsonAllocator() noexcept = default;
  template <typename U>
  JsonAllocator(const JsonAllocator<U>&) noexcept {}
  T* allocate(size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* memory, size_t count) noexcept { std::allocator<T>().deallocate(memory, count); }
  friend bool operator==(const JsonAllocator&, const JsonAllocator&) noexcept { return true; }
  friend bool operator!=(const JsonAllocator&, const JsonAllocator&) noexcept { return false; }
};

using Json =
    nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t, double, JsonAllocator>;

// Memory for vectors of values that is there when there is no other: the library's destructor, which must not
// fail, empties arrays and objects by way of such a vector, and so would end the process. Throws
// std::bad_alloc when the reserve (1 MB of the process' zeros, which take no memory until then: enough for
// 20,000 values at once) is used up as well.
void* allocate_json(size_t bytes);
void free_json(void* memory) noexcept;

}  // namespace lathe

// Ahead of the library, whose own uses must see it.
template <>
struct std::allocator<lathe::Json> {
  using value_type = lathe::Json;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  allocator() noexcept = default;
  template <typename T>
  allocator(const std::allocator<T>&) noexcept {}
  lathe::Json* allocate(size_t count);
  void deallocate(lathe::Json* memory, size_t) noexcept { lathe::free_json(memory); }
  template <typename T, typename... Arguments>
  void construct(T* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) T(std::forward<Arguments>(arguments)...);
  }
  template <typename T>
  void destroy(T* at) noexcept {
    at->~T();
  }
  size_t max_size() const noexcept;
  friend bool operator==(const allocator&, const allocator&) noexcept { return true; }
  friend bool operator!=(const allocator&, const allocator&) noexcept { return false; }
};

#include <nlohmann/json.hpp>

inline size_t std::allocator<lathe::Json>::max_size() const noexcept {
  return PTRDIFF_MAX / sizeof(lathe::Json);
}
inline lathe::Json* std::allocator<lathe::Json>::allocate(size_t count) {
  if (count > max_size()) throw std::bad_alloc();
  return static_cast<lathe::Json*>(lathe::allocate_json(count * sizeof(lathe::Json)));
}

namespace lathe {

// Throws nothing but std::bad_alloc; `what` names the text in the error. Of any text: what is nested deeper
// than 64 levels is refused.
absl::StatusOr<Json> parse_json(absl::string_view text, absl::string_view what);
// For files that people write: the same, and kInvalidArgument, "FILE:LINE: ...", where an object has a key
// twice.
absl::StatusOr<Json> parse_json_file(absl::string_view text, absl::string_view what);

// Runs `body` (which may throw the JSON library's exceptions on a missing or mistyped field) and turns an
// exception, std::bad_alloc apart, into kInvalidArgument naming `what`.
template <typename F>
auto read_json(absl::string_view what, F&& body) -> absl::StatusOr<decltype(body())> {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(std::string(what) + ": " + e.what());
  }
}

// Strict field readers, for use inside read_json: they throw on a missing field, on another JSON type (a
// float or a bool is no integer) and on a value outside [lo, hi].
int64_t int_field(const Json& j, const char* name, int64_t lo, int64_t hi);
double number_field(const Json& j, const char* name);
std::string text_field(const Json& j, const char* name);
// Throws unless `j` is an object with exactly `count` fields: with `count` fields read, none is left unread.
void expect_fields(const Json& j, size_t count);

// Canonical text: keys sorted, no spaces. Invalid UTF-8 is replaced, never thrown about.
std::string canonical_text(const Json& j);

}  // namespace lathe
