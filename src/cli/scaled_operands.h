// Operands with block scales, and 4-bit weights, of products that the command runs: --a-format and --b-format.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/command_line.h"
#include "cli/device_memory.h"
#include "reference/block_scaled.h"
#include "reference/operand.h"

namespace lathe::cli {

// The formats of A, and those of B.
const std::vector<std::string>& scaled_formats();
const std::vector<std::string>& scaled_weight_formats();
Flag a_format_flag();
Flag b_format_flag();

// The formats of a product's operands; "": none. Such an operand is f32 in the request, and encoded later.
struct OperandFormats {
  std::string a, b;
};
// Reads --a-format and --b-format. Refuses them together with a flag of `excluded`. If only B has a format, *b_dtype
// becomes f32 unless `dtype` is that already.
absl::Status read_formats(const Arguments& arguments, const std::vector<const char*>& excluded,
                          lathe_dtype dtype, lathe_dtype* b_dtype, OperandFormats* out);
// Makes the operands describe these formats, without data. "" leaves an operand as it is.
void describe_formats(const OperandFormats& formats, lathe_operand* a, lathe_operand* b);

// The operands' data, in host memory and on the device. 4-bit weights are packed on the host.
class ScaledOperands {
 public:
  // `a` and `b` are the decoded operands.
  ScaledOperands(const OperandFormats& formats, const reference::OperandSpec& a,
                 const reference::OperandSpec& b, reference::Normal* random);
  // Replaces A and B by what the encoded operands stand for.
  void decode(reference::Operand* a, reference::Operand* b) const;
  // Makes `desc` point to the encoded operands. Packs 4-bit weights. They are complete when `stream` is synchronised.
  absl::Status attach(lathe_device* device, const Stream& stream, lathe_matmul_desc* desc);
  // Bytes of the encoded operands with their scales. A: 0 if it has no format.
  double bytes_of_a() const;
  double bytes_of_b() const;

 private:
  bool has_u4() const { return b_.spec().format == nullptr; }
  absl::Status attach_u4(lathe_device* device, const Stream& stream, lathe_matmul_desc* desc);
  absl::Status upload(lathe_device* device, const Stream& stream, const reference::ScaledMatrix& matrix,
                      lathe_operand* operand, lathe_scale* scale);

  reference::ScaledMatrix a_, b_;
  reference::GroupedWeight weight_;
  lathe_scale scale_a_ = LATHE_SCALE_INIT, scale_b_ = LATHE_SCALE_INIT;
  std::vector<uint8_t> packed_;
  DeviceBuffer packed_on_device_;
  std::deque<std::vector<uint8_t>> images_;  // of `buffers_`
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace lathe::cli
