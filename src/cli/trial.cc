#include "cli/trial.h"

#include <chrono>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"

namespace lathe::cli {

const lathe_chain* TrialChain::with_workspace(void* data, size_t bytes) {
  workspace_.data = data;
  workspace_.bytes = bytes;
  workspace_.next = tuned_;
  return data != nullptr ? reinterpret_cast<const lathe_chain*>(&workspace_) : tuned_;
}

absl::Status place(lathe_device* device, const Stream& stream, const reference::Operand& operand,
                   DeviceBuffer* buffer, void** first) {
  if (!operand.exists()) return absl::OkStatus();
  auto made = DeviceBuffer::make(device, stream.get(), operand.image());
  if (!made.ok()) return made.status();
  *buffer = *std::move(made);
  *first = operand.first_at(buffer->data());
  return absl::OkStatus();
}

double trial_bytes(const Stream& stream, std::initializer_list<const reference::OperandSpec*> inputs,
                   std::initializer_list<const reference::OperandSpec*> outputs) {
  double bytes = 0;
  for (const reference::OperandSpec* f : inputs) bytes += stream.host_copies() * reference::image_bytes(*f);
  for (const reference::OperandSpec* f : outputs)
    bytes += (stream.host_copies() + 1) * reference::image_bytes(*f);
  return bytes;
}

absl::StatusOr<std::string> compare_launches(lathe_determinism determinism, int64_t rows, bool cuts_rows,
                                             absl::FunctionRef<std::string(int64_t rows)> result,
                                             absl::FunctionRef<absl::Status(int64_t rows)> launch) {
  constexpr int kRepeats = 3;
  if (determinism == LATHE_DETERMINISM_FAST || rows == 0) return std::string();
  std::multiset<int64_t> counts;
  for (int repeat = 0; repeat < kRepeats; ++repeat) counts.insert(rows);
  if (cuts_rows && determinism == LATHE_DETERMINISM_BATCH_INVARIANT) counts.insert({1, rows / 2, rows - 1});
  counts.erase(0);
  std::vector<std::string> wanted;
  for (int64_t count : counts) wanted.push_back(result(count));
  size_t index = 0;
  for (int64_t count : counts) {
    if (absl::Status s = launch(count); !s.ok()) return s;
    if (result(count) == wanted[index++]) continue;
    return count == rows ? "the bits of a launch differ from those of the first"
                         : absl::StrFormat("the bits of %d rows differ from those in a launch with %d rows",
                                           count, rows);
  }
  return std::string();
}

double total_bytes(std::initializer_list<const reference::Operand*> operands) {
  double bytes = 0;
  for (const reference::Operand* o : operands)
    if (o->exists())
      bytes += static_cast<double>(o->elements()) * reference::bytes_of(o->spec().dtype) /
               static_cast<double>(reference::block_elements(o->spec().dtype));
  return bytes;
}

double let_threads_end_spinning() {
  constexpr double kSeconds = 0.04;
  std::this_thread::sleep_for(std::chrono::duration<double>(kSeconds));
  return kSeconds;
}

absl::StatusOr<reference::CheckResult> run_checked(Trial& trial) {
  if (absl::Status s = trial.reset(); !s.ok()) return s;
  if (absl::Status s = check(trial.launch()); !s.ok()) return s;
  absl::StatusOr<reference::CheckResult> result = trial.verify();
  if (!result.ok() || !result->ok) return result;
  absl::StatusOr<std::string> differs = trial.compare_bits();
  if (!differs.ok()) return differs.status();
  if (!differs->empty()) {
    result->ok = false;
    result->what = *std::move(differs);
  }
  return result;
}

absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device* device, const Stream& stream,
                                                  const AnyRequest& request, uint64_t seed) {
  return std::visit([&](const auto& r) { return make_trial(device, stream, r, seed); }, request);
}

}  // namespace lathe::cli
