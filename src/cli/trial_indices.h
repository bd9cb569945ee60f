// The outputs of a trial whose op returns indices, and values if requested. Shared by argmax and matmul_argmax.
#pragma once

#include "cli/trial.h"

namespace lathe::cli {

class IndexTrial : public Trial {
 public:
  IndexTrial(lathe_device* device, const Stream& stream, lathe_determinism determinism, int64_t rows)
      : device_(device), stream_(stream), determinism_(determinism), rows_(rows) {}

  lathe_status launch() override { return launch_rows(rows_); }
  absl::Status reset() override;
  absl::StatusOr<bool> untouched() override;
  absl::StatusOr<std::string> compare_bits() override;

 protected:
  // Launches only the first `rows` rows.
  virtual lathe_status launch_rows(int64_t rows) = 0;

  // Copies the outputs, which hold poison, to device memory. `values` need not exist.
  absl::Status place_outputs(reference::Operand* indices, reference::Operand* values, void** indices_at,
                             void** values_at);
  absl::Status download();

  lathe_device* device_;
  const Stream& stream_;

 private:
  // The bytes of the first `rows` results.
  std::string results(int64_t rows) const;

  lathe_determinism determinism_;
  int64_t rows_;
  reference::Operand *indices_ = nullptr, *values_ = nullptr;
  DeviceBuffer indices_memory_, values_memory_;
  std::vector<uint8_t> indices_start_, values_start_;  // images of the outputs before a launch
};

}  // namespace lathe::cli
