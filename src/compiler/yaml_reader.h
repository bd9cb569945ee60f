// YAML node by node, so that every defect has its line: the first one is the error.
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

  // `place` stands before a line's number in errors: "mine.yaml:".
  YamlReader(absl::string_view place, absl::string_view yaml);

  // The text's one document, a mapping that errors call `what`; `finish` looks at what it has read when
  // nothing was wrong with it.
  absl::Status read(const std::string& what, const Visit& visit, const std::function<void()>& finish);

  // For what `read` calls. `line`: the key's, which stands in for what is not there.
  void fail(int line, const std::string& why);
  bool ok() { return error_.ok() && !stream_.failed(); }
  int line_of(Node* node) const;
  // Each key once.
  void each(Node* mapping, const std::string& what, const Visit& visit);
  // False: it is no sequence, which the caller says.
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
