// The AMD code objects of the fallback bundle: their GPUs, their modes and the parameters of their kernels.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cache/bundle.h"
#include "code_facts.h"
#include "core/amd_targets.h"
#include "core/args.h"
#include "core/generic.h"
#include "core/key.h"
#include "kernels/candidates_generic.h"

namespace lathe {
namespace {

// From LLVM's AMDGPU usage guide, "ELF Header": the e_flags and the ABI number of a code object.
struct CodeObject {
  const char* arch;
  uint32_t machine;
  bool has_xnack, has_sramecc;
  unsigned char abi;  // 3: version 5; 4: version 6, the first with generic targets
};
constexpr CodeObject kCodeObjects[] = {{"gfx9-generic", 0x051, true, false, 4},
                                       {"gfx9-4-generic", 0x05f, true, true, 4},
                                       {"gfx10-3-generic", 0x053, false, false, 4},
                                       {"gfx11-generic", 0x054, false, false, 4},
                                       {"gfx12-generic", 0x059, false, false, 4},
                                       {"gfx908", 0x030, true, true, 3},
                                       {"gfx90a", 0x03f, true, true, 3}};
// Two bits per mode. 0: the GPU has no such mode; 1: any.
constexpr uint32_t kAnyXnack = 1 << 8, kAnySramecc = 1 << 10, kModes = 0xF00;
constexpr int64_t kLds = 65536;

Artifact read(const Bundle& bundle, const ProblemClass& c, const Target& target) {
  const absl::StatusOr<Artifact> artifact =
      bundle.read(key_of(c, plan_generic(c, target), target, codegen_id()));
  if (!artifact.ok()) throw std::runtime_error(std::string(artifact.status().message()));
  return *artifact;
}

TEST(GenericCode, AmdCodeRunsInEveryModeOfItsGpus) {
  const auto bundle = Bundle::open(LATHE_FALLBACK_BUNDLE);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  for (const CodeObject& expected : kCodeObjects) {
    SCOPED_TRACE(expected.arch);
    const Target target = {Backend::kRocm, expected.arch, ""};
    for (const ProblemClass& c : generic_classes(target)) {
      const Artifact artifact = read(**bundle, c, target);
      ASSERT_EQ(artifact.format, CodeFormat::kHsaco);
      Elf64_Ehdr header;
      ASSERT_GT(artifact.code.size(), sizeof(header));
      std::memcpy(&header, artifact.code.data(), sizeof(header));
      EXPECT_EQ(header.e_machine, EM_AMDGPU);
      EXPECT_EQ(header.e_ident[EI_ABIVERSION], expected.abi);
      EXPECT_EQ(header.e_flags & 0xFF, expected.machine);
      EXPECT_EQ(header.e_flags & kModes,
                (expected.has_xnack ? kAnyXnack : 0) | (expected.has_sramecc ? kAnySramecc : 0));
    }
  }
}

TEST(GenericCode, AmdCodeNeedsNoScratchAndFitsEveryGpu) {
  const auto bundle = Bundle::open(LATHE_FALLBACK_BUNDLE);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  size_t kernels = 0;
  for (const Target& target : generic_targets()) {
    if (target.backend != Backend::kRocm) continue;
    for (const ProblemClass& c : generic_classes(target)) {
      SCOPED_TRACE(target.arch + " " + describe(c, {}));
      const Artifact artifact = read(**bundle, c, target);
      const KernelTable table = read_hsaco(artifact.code);
      for (const Step& step : artifact.recipe.steps) {
        const auto found = table.find(step.symbol);
        ASSERT_NE(found, table.end()) << step.symbol;
        const KernelFacts& facts = found->second;
        EXPECT_EQ(facts.scratch_bytes, 0);
        EXPECT_EQ(facts.spills, 0);
        EXPECT_LE(facts.shared_bytes, kLds);
        EXPECT_LE(facts.registers, 256);
        EXPECT_EQ(facts.workgroup[0], step.block[0]);
        EXPECT_EQ(facts.parameter_bytes, parameter_bytes(0));
        ++kernels;
      }
    }
  }
  EXPECT_GE(kernels, 7u * 62u);
}

}  // namespace
}  // namespace lathe
