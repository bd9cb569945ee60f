#include "cli/trial_indices.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lathe::cli {
namespace {

constexpr int kRepeats = 3;  // launches to compare if the request promises equal bits

}  // namespace

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
  if (determinism_ == LATHE_DETERMINISM_FAST || rows_ == 0) return std::string();
  std::multiset<int64_t> counts;
  for (int repeat = 0; repeat < kRepeats; ++repeat) counts.insert(rows_);
  if (determinism_ == LATHE_DETERMINISM_BATCH_INVARIANT) counts.insert({1, rows_ / 2, rows_ - 1});
  std::vector<std::string> wanted;
  for (int64_t rows : counts) wanted.push_back(results(rows));
  for (int64_t rows : counts) {
    const std::string expected = std::move(wanted.front());
    wanted.erase(wanted.begin());
    if (rows == 0) continue;
    if (absl::Status s = reset(); !s.ok()) return s;
    if (absl::Status s = check(launch_rows(rows)); !s.ok()) return s;
    if (absl::Status s = download(); !s.ok()) return s;
    if (results(rows) != expected)
      return rows == rows_ ? "the bits of a launch differ from those of the first"
                           : absl::StrFormat("the bits of %d rows differ from those in a launch with %d rows",
                                             rows, rows_);
  }
  return std::string();
}

}  // namespace lathe::cli
