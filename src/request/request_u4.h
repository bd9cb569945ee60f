// Reads a weight of 4 bits as AWQ and GPTQ store it, which lathe_pack_weights turns into blocks of u4_128.
#pragma once

#include <array>
#include <utility>

#include "core/u4_groups.h"
#include "lathe/lathe.h"
#include "request/request.h"

namespace lathe {

// Whether B is such a weight.
bool is_u4_weight(const lathe_matmul_desc& desc);
// The product with the packed weight, which begins at `packed` (null to ask for its size).
lathe_matmul_desc packed_u4_product(const lathe_matmul_desc& desc, void* packed);
// Checks the tensors of B. Their data is not read without `with_data`.
absl::Status check_u4_weight(const lathe_matmul_desc& desc, bool with_data);
// The tensors of one matrix of the batch.
U4Source u4_matrix(const lathe_matmul_desc& desc, int64_t matrix);
// What packing `matrices` matrices reads, each with its name.
std::array<std::pair<const char*, Region>, 3> u4_regions(const lathe_matmul_desc& desc, int64_t matrices);

}  // namespace lathe
