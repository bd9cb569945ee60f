// A private directory (0700), removed with everything in it: for programs that take and give files by name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

class TemporaryDirectory {
 public:
  // Under the first of `parents` where one can be made.
  explicit TemporaryDirectory(const std::vector<std::string>& parents);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // kNotFound with the causes where it could not be made.
  const absl::Status& status() const { return status_; }
  std::string path() const { return path_; }
  std::string file(absl::string_view name) const;

 private:
  std::string path_;
  absl::Status status_;
};

// Of a new file; past a file size limit it fails and the process goes on.
absl::Status write_file(const std::string& path, absl::string_view bytes);
// kNotFound where there is no such file.
absl::StatusOr<std::string> read_file(const std::string& path);

}  // namespace lathe
