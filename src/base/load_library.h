// dlopen where memory may be short.
#pragma once

#include <dlfcn.h>

#include <new>
#include <string>

namespace lathe {

// Null: *error says why. Short of memory glibc's answers are many, "undefined symbol" and "no such file"
// among them: only what it says twice in a row is believed. Throws std::bad_alloc.
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
