// A pipeline's YAML, node by node, so that every defect has its line.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/pipeline.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

namespace lathe {
namespace {

// The parser calls itself for what nests, which every two bytes of a text may do: so many bear on a thread's
// stack.
constexpr size_t kMostBytes = 16 << 10;

class Reader {
 public:
  Reader(absl::string_view name, absl::string_view yaml)
      : name_(name), yaml_(yaml), stream_(llvm::StringRef(yaml_), prepared(), /*ShowColors=*/false) {}

  absl::StatusOr<Pipeline> read() {
    Pipeline p;
    p.name = name_;
    if (yaml_.size() > kMostBytes) return error(1, "it is longer than 16 KiB");
    auto document = stream_.begin();
    if (document == stream_.end() || document->getRoot() == nullptr) return error(1, "it is no YAML");
    each(document->getRoot(), "a pipeline", [&](const std::string& key, int line, llvm::yaml::Node* value) {
      if (key == "for") {
        p.serves = scalar(value, line, "'for'");
      } else if (key == "stages") {
        read_stages(value, line, &p);
      } else {
        fail(line, absl::StrCat("unknown key '", key, "': a pipeline has 'for' and 'stages'"));
      }
    });
    if (error_.ok() && ++document != stream_.end()) fail(1, "it is more than one document");
    if (error_.ok() && p.serves.empty()) fail(1, "'for' is missing: what it serves, as in 'for: matmul.cpu'");
    if (error_.ok() && p.stages.empty()) fail(1, "no stages");
    if (!error_.ok()) return error_;
    return p;
  }

 private:
  using Visit = std::function<void(const std::string& key, int line, llvm::yaml::Node* value)>;

  llvm::SourceMgr& prepared() {
    const auto take = [](const llvm::SMDiagnostic& d, void* self) {
      static_cast<Reader*>(self)->fail(d.getLineNo(), d.getMessage().str());
    };
    sources_.setDiagHandler(take, this);
    return sources_;
  }

  absl::Status error(int line, const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line, ": ", why));
  }
  // The first defect is the one that is told.
  void fail(int line, const std::string& why) {
    if (error_.ok()) error_ = error(std::max(line, 1), why);
  }
  int line_of(llvm::yaml::Node* node) const {
    const llvm::SMLoc at = node->getSourceRange().Start;
    return at.isValid() && sources_.getNumBuffers() > 0
               ? static_cast<int>(sources_.getLineAndColumn(at).first)
               : 1;
  }

  std::string scalar(llvm::yaml::Node* node, int line, const std::string& what) {
    llvm::SmallString<64> storage;
    if (auto* plain = llvm::dyn_cast_or_null<llvm::yaml::ScalarNode>(node))
      return plain->getValue(storage).str();
    if (auto* block = llvm::dyn_cast_or_null<llvm::yaml::BlockScalarNode>(node)) {
      std::string text = block->getValue().str();
      std::replace(text.begin(), text.end(), '\n', ' ');
      return text;
    }
    fail(line, absl::StrCat(what, " is no text"));
    return "";
  }

  void each(llvm::yaml::Node* node, const std::string& what, const Visit& visit) {
    auto* mapping = llvm::dyn_cast_or_null<llvm::yaml::MappingNode>(node);
    if (!mapping) return fail(node ? line_of(node) : 1, absl::StrCat(what, " is no mapping"));
    std::vector<std::string> seen;
    for (llvm::yaml::KeyValueNode& pair : *mapping) {
      llvm::yaml::Node* key = pair.getKey();
      if (!error_.ok() || stream_.failed() || !key) return;
      const int line = line_of(key);
      const std::string name = scalar(key, line, "a key");
      if (llvm::is_contained(seen, name)) fail(line, absl::StrCat("'", name, "' stands here twice"));
      seen.push_back(name);
      llvm::yaml::Node* value = pair.getValue();
      if (!error_.ok() || stream_.failed()) return;
      visit(name, line, value);
    }
  }

  void read_stages(llvm::yaml::Node* node, int line, Pipeline* p) {
    auto* sequence = llvm::dyn_cast_or_null<llvm::yaml::SequenceNode>(node);
    if (!sequence) return fail(line, "'stages' is no sequence");
    for (llvm::yaml::Node& entry : *sequence) {
      if (!error_.ok() || stream_.failed()) return;
      const int first = line_of(&entry);
      Stage stage = read_stage(&entry);
      if (!error_.ok()) return;
      const int things = !stage.passes.empty() + !stage.emitter.empty() + !stage.schedule.empty();
      if (stage.name.empty()) return fail(first, "a stage without a name");
      if (things != 1)
        return fail(first,
                    absl::StrCat("stage '", stage.name, "' needs one of passes, emitter and schedule"));
      if (!stage.parameters.empty() && stage.schedule.empty())
        return fail(first, absl::StrCat("stage '", stage.name, "' has parameters and no schedule"));
      for (const Stage& other : p->stages)
        if (other.name == stage.name) return fail(first, absl::StrCat("a second stage '", stage.name, "'"));
      p->stages.push_back(std::move(stage));
    }
  }

  Stage read_stage(llvm::yaml::Node* node) {
    Stage s;
    each(node, "a stage", [&](const std::string& key, int line, llvm::yaml::Node* value) {
      if (key == "parameters") {
        return each(value, "'parameters'", [&](const std::string& name, int at, llvm::yaml::Node* bound) {
          s.parameters.push_back({name, scalar(bound, at, absl::StrCat("parameter '", name, "'")), at});
        });
      }
      std::string* field = key == "name"       ? &s.name
                           : key == "passes"   ? &s.passes
                           : key == "emitter"  ? &s.emitter
                           : key == "schedule" ? &s.schedule
                                               : nullptr;
      if (!field)
        return fail(line, absl::StrCat("unknown key '", key,
                                       "': a stage has name, passes, emitter, schedule and parameters"));
      *field = scalar(value, line, absl::StrCat("'", key, "'"));
      if (field != &s.name) s.line = line;
    });
    return s;
  }

  const std::string name_, yaml_;
  absl::Status error_;
  llvm::SourceMgr sources_;
  llvm::yaml::Stream stream_;
};

}  // namespace

absl::StatusOr<Pipeline> parse_pipeline(absl::string_view name, absl::string_view yaml) {
  return Reader(name, yaml).read();
}

}  // namespace lathe
