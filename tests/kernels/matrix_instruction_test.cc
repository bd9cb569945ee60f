// Compares the cycles of AMD's matrix instructions with the rates that AMD states for a compute unit.
#include "kernels/matmul/matrix_instruction.h"

#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

// Operations per clock of a compute unit. Sources: table 1 of the CDNA 2, 3 and 4 white papers; GPUOpen, "Using
// the Matrix Cores of AMD RDNA 4 architecture GPUs"; AMD Matrix Instruction Calculator (RDNA 4, 8-bit floats).
double stated(const std::string& arch, DType type) {
  if (type == DType::kMXF4E2M1) return 16384;
  const bool f32 = type == DType::kF32, half = size_of(type) == 2;
  if (f32) return 256;
  if (arch == "gfx90a") return 1024;
  if (arch == "gfx942") return half ? 2048 : 4096;
  if (arch == "gfx950") return half ? 4096 : 8192;
  if (arch == "gfx1100") return 512;
  return half ? 1024 : 2048;
}

TEST(MatrixInstructions, CyclesMatchStatedRates) {
  int devices = 0;
  for (const DeviceFacts& f : shipped_facts()) {
    if (f.target.backend != Backend::kRocm) continue;
    ++devices;
    int instructions = 0;
    for (const MatrixInstruction& t : kAmdInstructions) {
      if (find_amd_instruction(f.target.arch, t.type, t.rows) != &t) continue;
      ++instructions;
      SCOPED_TRACE(f.name + ": " + t.name);
      const double k = double(t.lane_bytes) * t.groups / bytes_per_element(t.type);
      const double simds = t.unit == MatrixInstruction::kMfma ? 4 : 2;
      const double rate = simds * 2 * t.rows * t.columns * k / t.cycles;
      EXPECT_EQ(rate, stated(f.target.arch, t.type));
      if (t.type != DType::kF16) continue;
      const double device = f.fact_or("compute_units", 0) * f.fact_or("clock_hz", 0) * rate;
      EXPECT_NEAR(f.fact_or("flops_matrix_f16", 0) / device, 1, 1e-6);
    }
    EXPECT_GE(instructions, 3) << f.name;
  }
  EXPECT_EQ(devices, 6);
}

}  // namespace
}  // namespace lathe
