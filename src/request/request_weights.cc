// B in quantised blocks, and B that was packed in advance.
#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "request/request.h"

namespace lathe {
namespace {

absl::Status invalid(const std::string& cause) { return absl::InvalidArgumentError(cause); }

}  // namespace

bool read_packed(const lathe_operand& b, int64_t n, bool is_cpu, ProblemClass* out, absl::Status* why) {
  // Formats that are only decoded are packed as plain blocks, which GPUs read, too.
  if (!is_cpu && row_of(out->b).kind != DTypeKind::kGroups)
    return refuse(why, absl::UnimplementedError(absl::StrCat(
                           "b: packed_layout: only the CPU supports packed weights of ", name_of(out->b))));
  absl::StatusOr<PackedLayout> layout = packed_layout_with_id(b.packed_layout, out->b);
  if (!layout.ok())
    return refuse(why, absl::InvalidArgumentError(absl::StrCat("b: ", layout.status().message())));
  if (*layout != packed_layout_of(n, out->b))
    return refuse(why,
                  invalid(absl::StrCat("b: packed_layout 0x", absl::Hex(b.packed_layout),
                                       " is not the layout for n ", n, "; lathe_packed_layout returns it")));
  if (b.leading_dimension != 0)
    return refuse(why, invalid(absl::StrCat("b: leading_dimension ", b.leading_dimension,
                                            " must be 0 for a packed B")));
  if (*layout == kColumns16) out->packed_b = *layout;  // kByColumn is a plain B
  out->trans_b = 1;
  return true;
}

bool place_blocks(const lathe_operand& b, const Dims& dims, DType dtype, const Placement& out,
                  absl::Status* why) {
  const int64_t block = block_elements(dtype);
  const Distances apart = distances_of(b, {dims.batch, dims.n, dims.k});
  const std::pair<const char*, int64_t> distances[] = {
      {"k", dims.k}, {"ldb", apart.leading}, {"b: batch_stride", apart.batch}};
  for (const auto& [name, distance] : distances) {
    if (distance % block == 0) continue;
    return refuse(why, invalid(absl::StrCat(name, " ", distance, " is not a multiple of ", block,
                                            ", the elements of a block of ", name_of(dtype))));
  }
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  if (!place_lines(b, {dims.batch, dims.n, dims.k / block}, {apart.leading / block, apart.batch / block},
                   bytes, out))
    return refuse(why, explain_distance(kOperandB, LATHE_COLUMN_MAJOR, apart, dims.k));
  *out.leading = apart.leading;
  *out.stride = apart.batch;
  return true;
}

bool place_packed(const lathe_operand& b, const Dims& dims, const ProblemClass& c, const Placement& out,
                  absl::Status* why) {
  if (c.packed_b == kNotPacked) {
    lathe_operand rows = b;
    rows.layout = LATHE_COLUMN_MAJOR;
    rows.leading_dimension = packed_pitch(dims.k, c.b);
    if (is_blocks(c.b)) return place_blocks(rows, dims, c.b, out, why);
    return place_operand(kOperandB, rows, {dims.batch, dims.k, dims.n}, out, why);
  }
  const int64_t elements = packed_elements(kColumns16, dims.k, dims.n, c.b), block = block_elements(c.b);
  const Distances apart = distances_of(b, {dims.batch, 1, elements});
  if (dims.k % block != 0 || apart.batch % block != 0)
    return refuse(
        why, invalid(absl::StrCat(dims.k % block != 0 ? "k " : "b: batch_stride ",
                                  dims.k % block != 0 ? dims.k : apart.batch, " is not a multiple of ", block,
                                  ", the elements of a block of ", name_of(c.b))));
  if (!place_lines(b, {dims.batch, 1, elements / block}, {apart.leading / block, apart.batch / block},
                   static_cast<int64_t>(size_of(c.b)), out))
    return refuse(why, explain_distance(kOperandB, LATHE_COLUMN_MAJOR, apart, elements));
  *out.leading = dims.k;
  *out.stride = apart.batch;
  if (dims.batch > 1 && apart.batch != 0 && apart.batch < elements) {
    return refuse(why, invalid(absl::StrCat("b: batch_stride ", apart.batch,
                                            " of a packed B is less than its ", elements, " elements")));
  }
  return true;
}

}  // namespace lathe
