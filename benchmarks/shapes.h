// The weights that a benchmark takes.
#pragma once

#include "flag_values.h"

namespace lathe::bench {

// Rows, of A and of logits, and the length of a row of logits: so that bytes are an int64_t, and an index of
// the scalar argmax fits.
constexpr int64_t kMostRows = int64_t{1} << 20, kMostOfRow = (int64_t{1} << 31) - 1;

struct Shape {
  std::string name;  // "llama3-8b/qkv"
  int64_t n = 0, k = 0;
};

// Those of the named models, of "all" every one's, each size once. The file's lines are model,layer,n,k,
// blank or comments after a #; another, and a model that the file lacks, is refused.
std::vector<Shape> shapes_of(const TextFlag& file, const ListFlag& models);

}  // namespace lathe::bench
