#include "cli/trial_indices.h"

#include "absl/strings/str_cat.h"

namespace lathe::cli {

absl::Status IndexTrial::place_outputs(reference::Operand* indices, reference::Operand* values,
                                       void** indices_at, void** values_at) {
  indices_ = indices, values_ = values;
  indices_start_ = indices->image();
  values_start_ = values->image();
  if (absl::Status s = place(device_, stream_, *indices, &indices_memory_, indices_at); !s.ok()) return s;
  return place(device_, stream_, *values, &values_memory_, values_at);
}

absl::Status IndexTrial::reset() {
  if (absl::Status s = indices_memory_.upload(stream_.get(), indices_start_); !s.ok()) return s;
  if (values_->exists()) {
    if (absl::Status s = values_memory_.upload(stream_.get(), values_start_); !s.ok()) return s;
  }
  return stream_.synchronize();
}

absl::Status IndexTrial::download() {
  if (absl::Status s = indices_memory_.download(stream_.get(), &indices_->image()); !s.ok()) return s;
  if (values_->exists()) {
    if (absl::Status s = values_memory_.download(stream_.get(), &values_->image()); !s.ok()) return s;
  }
  return stream_.synchronize();
}

absl::StatusOr<bool> IndexTrial::untouched() {
  if (absl::Status s = download(); !s.ok()) return s;
  return indices_->image() == indices_start_ && values_->image() == values_start_;
}

std::string IndexTrial::results(int64_t rows) const {
  std::string bytes;
  for (const reference::Operand* o : {indices_, values_}) {
    if (!o->exists()) continue;
    const auto wanted = static_cast<size_t>(rows) * reference::bytes_of(o->spec().dtype);
    absl::StrAppend(&bytes, o->row_bytes(0, 1).substr(0, wanted));
  }
  return bytes;
}

absl::StatusOr<std::string> IndexTrial::compare_bits() {
  return compare_launches(
      determinism_, rows_, /*cuts_rows=*/true, [this](int64_t rows) { return results(rows); },
      [this](int64_t rows) {
        if (absl::Status s = reset(); !s.ok()) return s;
        if (absl::Status s = check(launch_rows(rows)); !s.ok()) return s;
        return download();
      });
}

}  // namespace lathe::cli
