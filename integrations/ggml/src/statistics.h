// What LATHE_GGML_VERBOSE=1 prints when the process ends: the time of each kind of operation, and what Lathe does not
// take, with the reason.
#pragma once

#include <cstdint>

#include "ggml.h"

namespace lathe_ggml {

bool is_verbose();
// `nanoseconds` of wall time for one node, computed by Lathe or by ggml's CPU backend.
void count_time(const ggml_tensor* node, bool by_lathe, int64_t nanoseconds);
// `reason` must stay valid; NULL is ignored.
void count_refusal(const ggml_tensor* node, const char* reason);

}  // namespace lathe_ggml
