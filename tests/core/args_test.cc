#include "core/args.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

size_t size_of_kind(ArgumentKind kind) {
  return kind == ArgumentKind::ptr || kind == ArgumentKind::i64 ? 8 : 4;
}

// CUDA and AMD lay out the same parameter list with natural alignment, in order. The struct must match that.
TEST(ArgumentBlockTest, HasNoPadding) {
  size_t offset = 0;
  for (const ArgumentField& field : kArgumentFields) {
    EXPECT_EQ(field.offset, offset) << field.name;
    EXPECT_EQ(offset % size_of_kind(field.kind), 0u) << field.name;
    offset += size_of_kind(field.kind);
  }
  EXPECT_EQ(offset, sizeof(ArgumentBlock));
}

}  // namespace
}  // namespace lathe
