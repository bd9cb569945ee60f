// Reads and sets fields of a kernel's config by name, for tests that look at kernels of several families.
#pragma once

#include <gtest/gtest.h>

#include "core/plan.h"

namespace lathe {

// `otherwise`: for a family that has no such field.
inline int64_t field_or(const KernelConfig& config, absl::string_view name, int64_t otherwise) {
  for (const FieldValue& f : config.fields())
    if (name == f.field->name) return f.value;
  return otherwise;
}
inline int64_t field(const KernelConfig& config, absl::string_view name) {
  const int64_t value = field_or(config, name, -1);
  EXPECT_GE(value, 0) << name_of(config.kernel()) << " has no field " << name;
  return value;
}
inline void set_field(CompileConfig* config, absl::string_view name, int64_t value) {
  EXPECT_TRUE(config->set(name, value)) << name_of(config->kernel()) << " has no field " << name;
}
// The depth of a K block, whatever the family calls it; 0 if there is none.
inline int64_t depth_of(const KernelConfig& config) {
  int64_t depth = 0;
  for (const char* name : {"stage_k", "chunk_k", "tile_k"}) depth = field_or(config, name, depth);
  return depth;
}

}  // namespace lathe
