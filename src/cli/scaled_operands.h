// Operands with block scales, and 4-bit weights, of a matmul that the command runs: --a-format and --b-format.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/command_line.h"
#include "reference/block_scaled.h"
#include "reference/matmul.h"

namespace lathe::cli {

// The formats of A, and those of B.
const std::vector<std::string>& scaled_formats();
const std::vector<std::string>& scaled_weight_formats();
Flag a_format_flag();
Flag b_format_flag();

// Makes `desc` describe operands of these formats, without data. "" leaves an operand as it is.
void describe_formats(const reference::MatmulRequest& r, lathe_matmul_desc* desc);

// The operands' data, in host memory.
class ScaledOperands {
 public:
  ScaledOperands(const reference::MatmulRequest& r, reference::Normal* random);
  // Replaces A and B by what the encoded operands stand for.
  void decode(reference::MatmulData* data) const;
  // Makes `desc` point to the encoded operands. Packs 4-bit weights.
  absl::Status attach(lathe_device* device, lathe_matmul_desc* desc);
  // Bytes of the encoded operands with their scales, less those of the decoded ones.
  double encoded_less_decoded(const reference::MatmulData& data) const;

 private:
  bool has_u4() const { return weight_.n > 0; }
  absl::Status attach_u4(lathe_device* device, lathe_matmul_desc* desc);

  reference::ScaledMatrix a_, b_;
  reference::GroupedWeight weight_;
  lathe_scale scale_a_ = LATHE_SCALE_INIT, scale_b_ = LATHE_SCALE_INIT;
  std::vector<uint8_t> packed_;
};

}  // namespace lathe::cli
