// Kernels for classes that missed: loads those that a cache has, and compiles others for later processes.
#pragma once

#include <string>

#include "engine.h"

namespace lathe_blas {

// The class of this thread's last miss, as an entry of a manifest. The engine's context calls note_miss.
const std::string& last_missed_entry();
void note_miss(void*, const lathe_miss* miss);

// Loads the kernel of the entry if the cache directory or a bundle has it. Compiles nothing. False: it has not.
bool load_kernel(const Engine& engine, const std::string& entry);
// Compiles the kernel of the entry into the cache, on a thread of its own with the lowest priority. Forgets the entry
// if too many are waiting.
void compile_in_background(const Engine& engine, const std::string& entry);
// In the child of a fork, the parent's thread does not exist.
void forget_background_thread();

}  // namespace lathe_blas
