// What both peers need of ggml. Each peer compiles it with the header of its own ggml.
#pragma once

#include <ggml.h>

#include <string>

namespace lathe::bench {

struct NamedType {
  const char* name;
  ggml_type type;
};
inline constexpr NamedType kTypes[] = {
    {"q8_0", GGML_TYPE_Q8_0},     {"q4_0", GGML_TYPE_Q4_0},   {"q4_1", GGML_TYPE_Q4_1},
    {"q5_0", GGML_TYPE_Q5_0},     {"q5_1", GGML_TYPE_Q5_1},   {"q4_k", GGML_TYPE_Q4_K},
    {"q5_k", GGML_TYPE_Q5_K},     {"q6_k", GGML_TYPE_Q6_K},   {"iq4_nl", GGML_TYPE_IQ4_NL},
    {"iq4_xs", GGML_TYPE_IQ4_XS}, {"mxfp4", GGML_TYPE_MXFP4}, {"f32", GGML_TYPE_F32},
    {"bf16", GGML_TYPE_BF16}};

inline ggml_type type_of(const std::string& format) {
  for (const NamedType& named : kTypes)
    if (format == named.name) return named.type;
  return GGML_TYPE_COUNT;
}

struct FreeContext {
  void operator()(ggml_context* context) const { ggml_free(context); }
};

}  // namespace lathe::bench
