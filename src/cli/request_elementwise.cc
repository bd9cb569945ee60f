// Reads an elementwise request (a program and a shape) and makes its descriptor.
#include "absl/strings/str_cat.h"
#include "cli/files.h"
#include "cli/ops.h"
#include "cli/request_flags.h"
#include "cli/trial.h"

namespace lathe::cli {
namespace {

std::vector<Flag> elementwise_flags(const std::vector<Flag>& more) {
  return joined(
      {{"program", "FILE", "JSON file with the program (required)"}, kCandidate, kDependentLaunch, kPadding},
      more);
}

}  // namespace

absl::StatusOr<ElementwiseRequest> elementwise_request(const Arguments& arguments) {
  auto shape = parse_shape(arguments.words[0], "MxN");
  if (!shape.ok()) return shape.status();
  ElementwiseRequest r;
  r.m = (*shape)[0];
  r.n = (*shape)[1];
  if (!arguments.has("program"))
    return absl::InvalidArgumentError("--program FILE is required: it holds the elementwise program");
  absl::Status s = read_op(arguments, &r);
  if (!s.ok()) return s;
  const std::string path = arguments.text("program", "");
  absl::StatusOr<Json> text = read_json_file(path);
  if (!text.ok()) return text.status();
  r.path = path;
  r.text = text->dump();
  lathe_program* program = nullptr;
  s = check(lathe_program_create(r.text.data(), r.text.size(), &program));
  if (!s.ok()) return absl::Status(s.code(), absl::StrCat(path, ": ", s.message()));
  r.program.reset(program, lathe_program_destroy);
  return r;
}

lathe_elementwise_desc descriptor(const ElementwiseRequest& r, lathe_tuning* tuning) {
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  desc.program = r.program.get();
  desc.m = r.m;
  desc.n = r.n;
  desc.dependent_launch = r.dependent_launch;
  const Json program = Json::parse(r.text);
  const auto operand = [&](const Json& dtype, const std::string& dims) {
    const bool turned = dims == "nm" || dims == "bnm", rows = dims.find('m') != std::string::npos;
    lathe_operand o = LATHE_OPERAND_INIT;
    o.dtype = reference::dtype_named(dtype.get<std::string>());
    if (turned) o.layout = LATHE_COLUMN_MAJOR;
    const int64_t width = turned ? r.m : dims.find('n') != std::string::npos ? r.n : 1;
    if (rows && r.padding > 0) o.leading_dimension = width + r.padding;
    return o;
  };
  size_t i = 0;
  for (const Json& input : program.at("inputs"))
    desc.inputs[i++] = operand(input.at("dtype"), input.at("dims").get<std::string>());
  desc.d = operand(program.at("d"), "mn");
  desc.next = chain_tuning(0, r.candidate, tuning);
  return desc;
}

std::string command_of(const ElementwiseRequest& r) {
  return absl::StrCat("elementwise ", r.m, "x", r.n, " --program ", r.path, op_text(r));
}

OpRow elementwise_op() {
  return {"elementwise",
          "an elementwise program",
          "MxN",
          "every size",
          elementwise_flags,
          /*run_flags=*/nullptr,
          [](const Arguments& arguments) { return as_any(elementwise_request(arguments)); },
          {{"explain", "2048x4096 --program scaled.json --facts h200"},
           {"dump", "2048x4096 --program scaled.json --facts h200 --stage kernel.ptx"}}};
}

absl::StatusOr<std::unique_ptr<Trial>> make_trial(lathe_device*, const Stream&, const ElementwiseRequest&,
                                                  uint64_t) {
  return absl::UnimplementedError(
      "an elementwise program runs only as a step of a payload: see 'lathe kernel-bench'");
}

}  // namespace lathe::cli
