// One making of a kernel that several threads of a process want.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "absl/status/statusor.h"
#include "cache/cache.h"
#include "core/artifact.h"

namespace lathe {

using ArtifactPtr = std::shared_ptr<const Artifact>;

// One key's creation in this process: the leader fills it, the others wait. The mutex is the standard
// library's because ThreadSanitizer sees pthread calls and does not see into a prebuilt absl::Mutex; for the
// same reason the error is kept as code and text, of which each waiter makes its own Status.
class Flight {
 public:
  explicit Flight(Urgency urgency) : urgency_(urgency) {}

  Urgency urgency() const { return urgency_; }
  void land(const absl::StatusOr<ArtifactPtr>& result) noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (result.ok()) artifact_ = *result;
      code_ = result.status().code();
      try {
        message_ = std::string(result.status().message());
      } catch (const std::bad_alloc&) {
        // The code alone has to do: who waits must be let go.
      }
      landed_ = true;
    }
    changed_.notify_all();
  }
  // Of the leader: it will wait for others or compile now.
  void turn_slow() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      slow_ = true;
    }
    changed_.notify_all();
  }
  // Of the leader, before it lands: its error is its own, and somebody else is to lead.
  void abandon() {
    const std::lock_guard<std::mutex> lock(mutex_);
    abandoned_ = true;
  }
  bool is_abandoned() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return abandoned_;
  }
  // Waits until it lands or turns slow; whether the latter.
  bool waits_until_slow() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return landed_ || slow_; });
    return !landed_;
  }
  absl::StatusOr<ArtifactPtr> wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return landed_; });
    if (artifact_ != nullptr) return artifact_;
    return absl::Status(code_, message_);
  }

 private:
  const Urgency urgency_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool landed_ = false, slow_ = false, abandoned_ = false;
  ArtifactPtr artifact_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
  std::string message_;
};

}  // namespace lathe
