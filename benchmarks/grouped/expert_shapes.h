// The experts that lathe_grouped_bench measures, and random routings over them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../flag_values.h"
#include "../gguf/huge_memory.h"

namespace lathe::bench {

struct ExpertsShape {
  std::string model, name;  // "mixtral-8x7b", "mixtral-8x7b/down"
  int64_t n = 0, k = 0;
  int64_t experts = 0, used = 0;  // in all, and for each token
  bool shares_a = false;          // the slots of a token have one row of A
};

// Those of the named models ("all": of every model), or only the one named `weight`, if it is not "". Lines of the file
// are model,layer,n,k,experts,used,input with the input "shared" or "own", or blank. Refuses other lines.
std::vector<ExpertsShape> experts_of(const TextFlag& file, const ListFlag& models, const TextFlag& weight);

// Routings of m tokens. Each token has `used` different experts. Every routing has the same numbers of rows, for other
// experts, so that all calls do the same work. Together the routings use all experts.
class Routings {
 public:
  Routings(const ExpertsShape& shape, int64_t m, uint64_t seed);

  const std::vector<int32_t*>& all() const { return all_; }  // each aligned to 64 bytes
  // The experts that a routing uses, each once.
  const std::vector<int32_t>& experts(size_t routing) const { return experts_[routing]; }

 private:
  HugeMemory memory_;
  std::vector<int32_t*> all_;
  std::vector<std::vector<int32_t>> experts_;
};

}  // namespace lathe::bench
