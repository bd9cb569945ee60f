#include "compiler/yaml_reader.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

// LLVM's parser is recursive, and every two bytes of a text may open another level. This limit keeps it within
// a thread's stack.
constexpr size_t kMostBytes = 16 << 10;

}  // namespace

YamlReader::YamlReader(absl::string_view place, absl::string_view yaml)
    : place_(place), yaml_(yaml), stream_(llvm::StringRef(yaml_), prepared(), /*ShowColors=*/false) {}

llvm::SourceMgr& YamlReader::prepared() {
  const auto take = [](const llvm::SMDiagnostic& d, void* self) {
    static_cast<YamlReader*>(self)->fail(d.getLineNo(), d.getMessage().str());
  };
  sources_.setDiagHandler(take, this);
  return sources_;
}

void YamlReader::fail(int line, const std::string& why) {
  if (error_.ok()) error_ = absl::InvalidArgumentError(absl::StrCat(place_, std::max(line, 1), ": ", why));
}

absl::Status YamlReader::read(const std::string& what, const Visit& visit,
                              const std::function<void()>& finish) {
  if (yaml_.size() > kMostBytes) {
    fail(1, "the text is longer than 16 KiB");
    return error_;
  }
  auto document = stream_.begin();
  if (document == stream_.end() || document->getRoot() == nullptr) {
    fail(1, "the text is not YAML");
    return error_;
  }
  each(document->getRoot(), what, visit);
  if (error_.ok() && ++document != stream_.end()) fail(1, "the text has more than one document");
  if (error_.ok()) finish();
  return error_;
}

int YamlReader::line_of(Node* node) const {
  const llvm::SMLoc at = node->getSourceRange().Start;
  return at.isValid() && sources_.getNumBuffers() > 0 ? static_cast<int>(sources_.getLineAndColumn(at).first)
                                                      : 1;
}

std::string YamlReader::scalar(Node* node, int line, const std::string& what) {
  llvm::SmallString<64> storage;
  if (auto* plain = llvm::dyn_cast_or_null<llvm::yaml::ScalarNode>(node))
    return plain->getValue(storage).str();
  if (auto* block = llvm::dyn_cast_or_null<llvm::yaml::BlockScalarNode>(node)) {
    std::string text = block->getValue().str();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  fail(line, absl::StrCat(what, " is not a string"));
  return "";
}

void YamlReader::each(Node* node, const std::string& what, const Visit& visit) {
  auto* mapping = llvm::dyn_cast_or_null<llvm::yaml::MappingNode>(node);
  if (!mapping) return fail(node ? line_of(node) : 1, absl::StrCat(what, " is not a mapping"));
  std::vector<std::string> seen;
  for (llvm::yaml::KeyValueNode& pair : *mapping) {
    Node* key = pair.getKey();
    if (!ok() || !key) return;
    const int line = line_of(key);
    const std::string name = scalar(key, line, "a key");
    if (llvm::is_contained(seen, name)) fail(line, absl::StrCat("duplicate key '", name, "'"));
    seen.push_back(name);
    Node* value = pair.getValue();
    if (!ok()) return;
    visit(name, line, value);
  }
}

bool YamlReader::items(Node* node, const std::function<void(Node*)>& visit) {
  auto* sequence = llvm::dyn_cast_or_null<llvm::yaml::SequenceNode>(node);
  if (!sequence) return false;
  for (Node& entry : *sequence) {
    if (!ok()) break;
    visit(&entry);
  }
  return true;
}

}  // namespace lathe
