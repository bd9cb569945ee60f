#include "dispatch/class_on_device.h"

#include "absl/strings/str_cat.h"
#include "dispatch/device.h"

namespace lathe {

Dims largest_request(const ProblemClass& c) {
  const int64_t n = has_row_lengths(c.op) ? c.row_hi : has_program(c.op) ? Bucket::kOpenEnd : c.n;
  return {c.m_hi, n, c.k, 1};
}

std::string describe_class(const lathe_device& device, const ProblemClass& c) {
  return absl::StrCat(describe(c, largest_request(c)), " on ", device.name);
}

const Json* pipeline_for(const lathe_device& device, const ProblemClass& c, const CompileConfig& config) {
  if (!config.external.provider.empty()) return nullptr;  // an external library's routine is not compiled
  return device.context.pipelines.find(c.op, device.facts.target.backend);
}

std::string codegen_for(const lathe_device& device, const ProblemClass& c) {
  return device.context.pipelines.codegen_of(c.op, device.facts.target.backend);
}

absl::StatusOr<std::shared_ptr<const ElementwiseProgram>> program_for(const lathe_device& device,
                                                                      const ProblemClass& c) {
  std::shared_ptr<const ElementwiseProgram> program;
  if (!has_program(c.op)) return program;
  program = device.context.programs.find(c);
  if (program != nullptr) return program;
  return absl::UnavailableError(
      "this context does not know the program: no manifest and no request has brought it");
}

}  // namespace lathe
