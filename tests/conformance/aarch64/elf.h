// Loads a relocatable ELF object of AArch64 into memory. It supports what kernels contain: code and constants, no
// undefined symbols.
#pragma once

#include <stdint.h>

struct LoadedObject {
  char* image;  // executable, not writable
  uint64_t image_bytes;
  char* file;  // a copy of the object, for its symbols
  uint64_t file_bytes;
};

// Null, or what the object contains that is not supported. `file` is copied.
const char* load_object(const char* file, uint64_t bytes, struct LoadedObject* out);
void unload_object(struct LoadedObject* object);
// The function with this name; null if there is none.
void* find_symbol(const struct LoadedObject* object, const char* name);
