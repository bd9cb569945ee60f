// A private directory (0700) under /tmp, removed with everything in it: for programs that take and give files
// by name.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // kInternal with the cause where it could not be made.
  const absl::Status& status() const { return status_; }
  std::string path() const { return path_; }
  std::string file(absl::string_view name) const;

 private:
  char path_[32] = "/tmp/lathe-XXXXXX";
  absl::Status status_;
};

absl::Status write_file(const std::string& path, absl::string_view bytes);
// kNotFound where there is no such file.
absl::StatusOr<std::string> read_file(const std::string& path);

}  // namespace lathe
