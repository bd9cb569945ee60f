// A private directory (0700) that the destructor removes with its contents. For programs that read and write
// files by name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

class TemporaryDirectory {
 public:
  // Creates the directory in the first of `parents` that allows it.
  explicit TemporaryDirectory(const std::vector<std::string>& parents);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // kNotFound, with the reason for every parent, if it could not be created.
  const absl::Status& status() const { return status_; }
  std::string path() const { return path_; }
  std::string file(absl::string_view name) const;

 private:
  std::string path_;
  absl::Status status_;
};

// Writes a new file. Returns an error if a file size limit is exceeded, instead of ending the process.
absl::Status write_file(const std::string& path, absl::string_view bytes);
// kNotFound if the file does not exist.
absl::StatusOr<std::string> read_file(const std::string& path);

}  // namespace lathe
