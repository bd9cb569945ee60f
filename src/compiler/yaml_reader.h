// Reads YAML node by node, so that every error has its line. The first error is reported.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

namespace lathe {

class YamlReader {
 public:
  using Node = llvm::yaml::Node;
  using Visit = std::function<void(const std::string& key, int line, Node* value)>;

  // `place` precedes the line number in errors, such as "mine.yaml:".
  YamlReader(absl::string_view place, absl::string_view yaml);

  // Reads the only document of the text, a mapping, and calls `visit` for each key. `what` names the document in
  // errors. If there was no error, calls `finish`, which may check the result as a whole.
  absl::Status read(const std::string& what, const Visit& visit, const std::function<void()>& finish);

  // The functions below are for the callbacks of `read`. `line` is the line of the key.
  void fail(int line, const std::string& why);
  bool ok() { return error_.ok() && !stream_.failed(); }
  int line_of(Node* node) const;
  // Visits each key of a mapping. Fails for a duplicate key.
  void each(Node* mapping, const std::string& what, const Visit& visit);
  // Visits each entry of a sequence. Returns false, without an error, if it is not a sequence.
  bool items(Node* sequence, const std::function<void(Node*)>& visit);
  std::string scalar(Node* node, int line, const std::string& what);

 private:
  llvm::SourceMgr& prepared();

  const std::string place_, yaml_;
  absl::Status error_;
  llvm::SourceMgr sources_;
  llvm::yaml::Stream stream_;
};

}  // namespace lathe
