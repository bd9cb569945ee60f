// Who serves a class of products in this process. The choice is made once: if it changed, the same product would give
// other bits than before, and programs compare repeated results.
#pragma once

#include <cstdint>

#include "product.h"

namespace lathe_blas {

enum class Server { kUndecided, kLathe, kNext };

// A hash of what makes a class: dtype, layouts, whether beta is 0, N, K, and the range of M that one kernel serves.
uint64_t class_of(const Product& product);
// The server of a class. For the next BLAS, adds one to *times, the number of its calls, up to 7.
Server server_of(uint64_t class_hash, int* times);
void set_server(uint64_t class_hash, Server server);
// Forgets every choice, in the child of a fork.
void clear_servers();

}  // namespace lathe_blas
