// Reads the request file of `lathe selftest --requests`.
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/selftest.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

absl::StatusOr<AnyRequest> read_request(const std::string& line) {
  const std::vector<Verb> verbs = run_verbs();
  std::vector<std::string> words = {"run"};
  for (absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty()))
    words.emplace_back(word);
  const Verb* verb = nullptr;
  absl::StatusOr<Arguments> arguments = parse(words, verbs, &verb);
  if (!arguments.ok()) return arguments.status();
  for (const OpRow& op : op_rows())
    if (verb->name == absl::StrCat("run ", op.name)) return op.request(*arguments);
  return absl::InternalError(absl::StrCat("the verb '", verb->name, "' belongs to no op"));
}

}  // namespace

absl::StatusOr<std::vector<SelftestCase>> read_requests(const std::string& text) {
  std::vector<SelftestCase> cases;
  int number = 0;
  for (absl::string_view piece : absl::StrSplit(text, '\n')) {
    ++number;
    const std::string line(absl::StripAsciiWhitespace(piece));
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<AnyRequest> request = read_request(line);
    if (!request.ok())
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ", '", line, "': ", request.status().message()));
    // A grouped product takes no candidate.
    const bool forced = common_fields(*request).candidate != 0 ||
                        std::holds_alternative<reference::GroupedMatmulRequest>(*request);
    cases.push_back({"requests", *std::move(request), forced ? Forced::kNone : Forced::kMerge});
  }
  if (cases.empty()) return absl::InvalidArgumentError("the file has no request");
  return cases;
}

}  // namespace lathe::cli
