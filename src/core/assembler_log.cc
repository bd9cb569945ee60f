#include "core/assembler_log.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lathe {
namespace {

// Reads the number that precedes `words`. Returns false if the line does not contain `words`.
bool number_before(absl::string_view line, absl::string_view words, int64_t* number) {
  const size_t end = line.find(words);
  if (end == absl::string_view::npos) return false;
  size_t begin = end;
  while (begin > 0 && absl::ascii_isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  return absl::SimpleAtoi(line.substr(begin, end - begin), number);
}

// "ptxas info    : (C7508) Potential Performance Loss: ..."
bool is_complaint(absl::string_view line) {
  if (absl::StrContains(line, "warning")) return true;
  const size_t code = line.find("(C");
  return code != absl::string_view::npos && code + 2 < line.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(line[code + 2]));
}

}  // namespace

bool is_worse_linked(absl::string_view ptx) { return absl::StrContains(ptx, "setmaxnreg"); }

AssemblerLog parse_assembler_log(absl::string_view text) {
  constexpr absl::string_view kKernel = "Function properties for ";
  AssemblerLog log;
  std::string symbol;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    // nvJitLink's own summary. Its counts include what the driver reserves, so they are not the kernel's.
    if (absl::StartsWith(line, "info")) continue;
    if (is_complaint(line)) log.messages.emplace_back(line);
    if (const size_t at = line.find(kKernel); at != absl::string_view::npos) {
      symbol = std::string(line.substr(at + kKernel.size()));
      log.kernels[symbol];
    }
    if (symbol.empty()) continue;
    KernelResources& kernel = log.kernels[symbol];
    number_before(line, " registers", &kernel.registers);
    number_before(line, " bytes smem", &kernel.shared_bytes);
    number_before(line, " bytes stack frame", &kernel.stack_bytes);
    int64_t stores = 0, loads = 0;
    if (number_before(line, " bytes spill stores", &stores) &&
        number_before(line, " bytes spill loads", &loads))
      kernel.spill_bytes = stores + loads;
    if (stores + loads > 0)
      log.messages.push_back(
          absl::StrCat(symbol, ": ", stores, " bytes spill stores, ", loads, " bytes spill loads"));
  }
  return log;
}

}  // namespace lathe
