// The only header that includes the JSON library. Objects sort their keys, so dump() is canonical.
#pragma once

#include <memory>
#include <new>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

// Works like std::allocator. It makes Json a type of Lathe's own, so that the specialisation below cannot
// clash with other code in the process that uses the same library.
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

// Allocates memory for vectors of Json values, from a static reserve of 1 MB if the heap is exhausted. The
// reserve is needed because the destructor of nested values allocates such a vector; a failure there would
// end the process. Throws std::bad_alloc once the reserve is full too (about 20,000 values).
void* allocate_json(size_t bytes);
void free_json(void* memory) noexcept;

}  // namespace lathe

// Must precede the library's header, so that the library uses this specialisation.
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

// Parses any text. `what` names the text in errors. More than 64 levels of nesting are an error. Throws only
// std::bad_alloc.
absl::StatusOr<Json> parse_json(absl::string_view text, absl::string_view what);
// The same for files that people write: a duplicate key is an error too, "FILE:LINE: ...".
absl::StatusOr<Json> parse_json_file(absl::string_view text, absl::string_view what);

// Runs `body`, which may throw the JSON library's exceptions, for example for a missing field. Turns every
// exception except std::bad_alloc into kInvalidArgument; `what` names the text in the message.
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

// Strict field readers, for use inside read_json. They throw if the field is missing, has another JSON type
// (a float or a bool is not an integer), or lies outside [lo, hi].
int64_t int_field(const Json& j, const char* name, int64_t lo, int64_t hi);
double number_field(const Json& j, const char* name);
std::string text_field(const Json& j, const char* name);
// Throws unless `j` is an object with exactly `count` fields. A reader that reads `count` fields detects
// unknown fields this way.
void expect_fields(const Json& j, size_t count);

// Canonical text: sorted keys, no spaces. Invalid UTF-8 is replaced; it never throws for it.
std::string canonical_text(const Json& j);

}  // namespace lathe
