// Single flight: one thread makes a kernel, and the other threads of the process wait for it.
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

// The creation of one key in this process. The leader fills it, the others wait. It uses std::mutex because
// ThreadSanitizer cannot see into a prebuilt absl::Mutex. For the same reason it keeps the error as code and
// text, and each waiter makes its own Status.
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
        // Return the code without a message: the waiters must be released in any case.
      }
      landed_ = true;
    }
    changed_.notify_all();
  }
  // Called by the leader before it compiles or waits for another process.
  void turn_slow() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      slow_ = true;
    }
    changed_.notify_all();
  }
  // Called by the leader before it lands without an artifact because it stopped. The waiters try again.
  void abandon() {
    const std::lock_guard<std::mutex> lock(mutex_);
    abandoned_ = true;
  }
  bool is_abandoned() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return abandoned_;
  }
  // Waits until the flight lands or turns slow. Returns whether it turned slow.
  bool waits_until_slow() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return landed_ || slow_; });
    return !landed_;
  }
  // Waits until the flight lands. The artifact is null if the flight is abandoned.
  absl::StatusOr<ArtifactPtr> wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return landed_; });
    if (code_ == absl::StatusCode::kOk) return artifact_;
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
