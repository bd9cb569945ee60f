// Parses the YAML of a pipeline.
#include "absl/strings/str_cat.h"
#include "compiler/pipeline.h"
#include "compiler/yaml_reader.h"

namespace lathe {
namespace {

class PipelineReader {
 public:
  PipelineReader(absl::string_view name, absl::string_view yaml) : yaml_(absl::StrCat(name, ":"), yaml) {
    p_.name = std::string(name);
  }

  absl::StatusOr<Pipeline> read() {
    const auto visit = [&](const std::string& key, int line, YamlReader::Node* value) {
      if (key == "for") {
        p_.serves = yaml_.scalar(value, line, "'for'");
      } else if (key == "stages") {
        if (!yaml_.items(value, [&](YamlReader::Node* entry) { add_stage(entry); }))
          yaml_.fail(line, "'stages' is not a sequence");
      } else {
        yaml_.fail(line, absl::StrCat("unknown key '", key, "': a pipeline has 'for' and 'stages'"));
      }
    };
    const absl::Status status = yaml_.read("a pipeline", visit, [&] {
      if (p_.serves.empty())
        yaml_.fail(1, "'for' is missing: the op and the backend, such as 'for: matmul.cpu'");
      if (p_.stages.empty()) yaml_.fail(1, "'stages' is missing or empty");
    });
    if (!status.ok()) return status;
    return std::move(p_);
  }

 private:
  void add_stage(YamlReader::Node* entry) {
    const int first = yaml_.line_of(entry);
    Stage stage = read_stage(entry);
    if (!yaml_.ok()) return;
    const int things = !stage.passes.empty() + !stage.emitter.empty() + !stage.schedule.empty();
    if (stage.name.empty()) return yaml_.fail(first, "a stage has no name");
    if (things != 1)
      return yaml_.fail(
          first, absl::StrCat("stage '", stage.name, "' needs exactly one of passes, emitter and schedule"));
    if (!stage.parameters.empty() && stage.schedule.empty())
      return yaml_.fail(first, absl::StrCat("stage '", stage.name, "' has parameters but no schedule"));
    for (const Stage& other : p_.stages)
      if (other.name == stage.name)
        return yaml_.fail(first, absl::StrCat("two stages have the name '", stage.name, "'"));
    p_.stages.push_back(std::move(stage));
  }

  Stage read_stage(YamlReader::Node* node) {
    Stage s;
    yaml_.each(node, "a stage", [&](const std::string& key, int line, YamlReader::Node* value) {
      if (key == "parameters") {
        return yaml_.each(value, "'parameters'",
                          [&](const std::string& name, int at, YamlReader::Node* bound) {
                            s.parameters.push_back(
                                {name, yaml_.scalar(bound, at, absl::StrCat("parameter '", name, "'")), at});
                          });
      }
      std::string* field = key == "name"       ? &s.name
                           : key == "passes"   ? &s.passes
                           : key == "emitter"  ? &s.emitter
                           : key == "schedule" ? &s.schedule
                                               : nullptr;
      if (!field)
        return yaml_.fail(line,
                          absl::StrCat("unknown key '", key,
                                       "': a stage has name, passes, emitter, schedule and parameters"));
      *field = yaml_.scalar(value, line, absl::StrCat("'", key, "'"));
      if (field != &s.name) s.line = line;
    });
    return s;
  }

  YamlReader yaml_;
  Pipeline p_;
};

}  // namespace

absl::StatusOr<Pipeline> parse_pipeline(absl::string_view name, absl::string_view yaml) {
  return PipelineReader(name, yaml).read();
}

}  // namespace lathe
