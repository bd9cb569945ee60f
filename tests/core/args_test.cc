#include "core/args.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

size_t size_of_kind(ArgumentKind kind) {
  return kind == ArgumentKind::ptr || kind == ArgumentKind::i64 ? 8 : 4;
}

// Naturally aligned, in table order, without a gap: the layout CUDA and AMD give the same parameter list.
TEST(ArgumentBlockTest, FieldsFollowEachOtherWithoutPadding) {
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
