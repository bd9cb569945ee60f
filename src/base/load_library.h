// dlopen for a process that may be short of memory.
#pragma once

#include <dlfcn.h>

#include <new>
#include <string>

namespace lathe {

// Returns null if the library cannot be loaded; *error then has the reason. Throws std::bad_alloc if memory
// is short. glibc reports a lack of memory with many messages, "no such file" among them, so only an error
// that comes twice in a row is trusted.
inline void* load_library(const char* path, int flags, std::string* error) {
  constexpr int kTries = 4;
  error->clear();
  for (int i = 0; i < kTries; ++i) {
    if (void* const library = dlopen(path, flags)) return library;
    const char* const text = dlerror();
    if (text == nullptr) continue;
    if (*error == text) return nullptr;
    *error = text;
  }
  throw std::bad_alloc();
}

}  // namespace lathe
