// The weights that a benchmark measures.
#pragma once

#include "flag_values.h"

namespace lathe::bench {

// Limits for the rows of A and of logits, and for the length of a row of logits, so that sizes in bytes fit
// an int64_t and indices fit scalar_argmax().
constexpr int64_t kMostRows = int64_t{1} << 20, kMostOfRow = (int64_t{1} << 31) - 1;

struct Shape {
  std::string name;  // "llama3-8b/qkv"
  int64_t n = 0, k = 0;
};

// The weights of the named models ("all": of every model), each size once. Lines of the file are
// model,layer,n,k, blank, or comments that start with #. Refuses other lines and unknown models.
std::vector<Shape> shapes_of(const TextFlag& file, const ListFlag& models);

}  // namespace lathe::bench
