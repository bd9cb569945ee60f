#include "tests/gpu/emulator/ptx/harness.h"

#include "absl/strings/str_join.h"
#include "tests/sample.h"

namespace lathe::ptx {
namespace {

std::string text_of(int pointers, const std::string& body, const std::string& directives,
                    const std::string& globals, int maps) {
  std::string text =
      absl::StrCat(".version 8.6\n.target sm_90a\n.address_size 64\n", globals, "\n.visible .entry k(");
  std::vector<std::string> parameters;
  for (int i = 0; i < pointers; ++i) parameters.push_back(absl::StrCat(".param .u64 p", i));
  for (int i = 0; i < maps; ++i) parameters.push_back(absl::StrCat(".param .align 64 .b8 m", i, "[128]"));
  absl::StrAppend(&text, absl::StrJoin(parameters, ", "), ")", directives, "\n{\n");
  absl::StrAppend(
      &text,
      ".reg .b16 %h<200>; .reg .b32 %r<400>; .reg .b64 %rd<200>; .reg .f32 %f<400>; .reg .pred %p<200>;\n");
  for (int i = 0; i < pointers; ++i) absl::StrAppend(&text, "ld.param.b64 %rd", i, ", [p", i, "];\n");
  for (int i = 0; i < maps; ++i)
    absl::StrAppend(&text, "mov.b64 %rd10", i, ", m", i, "; cvta.param.u64 %rd10", i, ", %rd10", i, ";\n");
  return absl::StrCat(text, body, "\nret;\n}\n");
}

}  // namespace

Program::Program(int pointers, const std::string& body, const std::string& directives,
                 const std::string& globals, int maps)
    : Program(text_of(pointers, body, directives, globals, maps)) {}

Program::Program(const std::string& text) {
  auto module = Module::parse(text);
  parse_status_ = module.status();
  if (!module.ok()) return;
  module_ = *std::move(module);
  for (const Global& global : module_->globals()) memory_.add(global.address, global.size, global.name);
}

void Program::map(const TensorMap& tensor) {
  uint8_t bytes[kTensorMapBytes];
  encode_tensor_map(tensor, bytes);
  raw(bytes, sizeof bytes, 64);
}

void Program::raw(const void* bytes, size_t size, size_t align) {
  const size_t base = parameter_base("sm_90a");
  parameters_.resize((base + parameters_.size() + align - 1) / align * align - base);
  const auto* from = static_cast<const uint8_t*>(bytes);
  parameters_.insert(parameters_.end(), from, from + size);
}

absl::Status Program::run(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block) {
  if (!parse_status_.ok()) return parse_status_;
  LaunchConfig config;
  config.grid = grid;
  config.block = block;
  config.cluster = cluster;
  config.dynamic_shared = dynamic_shared;
  config.parameters = parameters_;
  return launch(*module_, *module_->kernels().front(), config, memory_, options);
}

std::mt19937_64& test_random() {
  static std::mt19937_64& random = *new std::mt19937_64;
  static const ::testing::TestInfo* seeded = nullptr;
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test != seeded) random.seed(seed_of_test(sample_seed()));
  seeded = test;
  return random;
}

}  // namespace lathe::ptx
