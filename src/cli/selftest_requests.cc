// Reads the request file of `lathe selftest --requests`.
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/selftest.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

template <typename Request>
absl::StatusOr<AnyRequest> any(absl::StatusOr<Request> request) {
  if (!request.ok()) return request.status();
  return AnyRequest(*std::move(request));
}

absl::StatusOr<AnyRequest> read_request(const std::string& line) {
  const std::vector<Verb> verbs = {run_matmul_verb(), run_argmax_verb(), run_matmul_argmax_verb()};
  std::vector<std::string> words = {"run"};
  for (absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty()))
    words.emplace_back(word);
  const Verb* verb = nullptr;
  absl::StatusOr<Arguments> arguments = parse(words, verbs, &verb);
  if (!arguments.ok()) return arguments.status();
  const std::string name = verb->name;
  if (name == "run matmul") return any(matmul_request_with_shape(*arguments));
  if (name == "run argmax") return any(argmax_request(*arguments));
  return any(matmul_argmax_request(*arguments));
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
    const bool forced = std::visit([](const auto& r) { return r.candidate != 0; }, *request);
    cases.push_back({"requests", *std::move(request), forced ? Forced::kNone : Forced::kMerge});
  }
  if (cases.empty()) return absl::InvalidArgumentError("the file has no request");
  return cases;
}

}  // namespace lathe::cli
