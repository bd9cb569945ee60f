// Places a relocatable ELF object of AArch64 in memory, as the kernels' are: code and constants, no undefined
// symbol.
#pragma once

#include <stdint.h>

struct LoadedObject {
  char* image;  // executable, not writable
  uint64_t image_bytes;
  char* file;  // the object, for its symbols
  uint64_t file_bytes;
};

// Null, or what the object has that this cannot place. `file` is copied.
const char* load_object(const char* file, uint64_t bytes, struct LoadedObject* out);
void unload_object(struct LoadedObject* object);
// The function of that name, null where there is none.
void* find_symbol(const struct LoadedObject* object, const char* name);
