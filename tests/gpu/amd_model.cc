#include "amd_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/candidates_model.h"

namespace lathe {
namespace {

// The hardware that runs a workgroup: a compute unit, or two of them on RDNA (a workgroup processor).
struct Unit {
  const char* arch;
  int64_t units, simds;         // compute units; SIMDs of all of them together
  int64_t registers, granule;   // registers per lane of a SIMD; a wave gets them in steps
  int64_t waves, workgroups;    // per SIMD; per compute unit or processor
  int64_t shared, shared_step;  // bytes
};
// From LLVM's AMDGPUBaseInfo and the instruction set guides.
constexpr Unit kUnits[] = {
    {"gfx90a", 1, 4, 512, 8, 8, 16, 64 << 10, 512},      {"gfx942", 1, 4, 512, 8, 8, 16, 64 << 10, 512},
    {"gfx950", 1, 4, 512, 8, 8, 16, 160 << 10, 1280},    {"gfx1100", 2, 4, 1536, 24, 16, 32, 128 << 10, 512},
    {"gfx1201", 2, 4, 1536, 24, 16, 32, 128 << 10, 512},
};

const Unit& unit_of(const std::string& arch) {
  for (const Unit& u : kUnits)
    if (arch == u.arch) return u;
  throw std::invalid_argument("the model has no compute unit for " + arch);
}

// gfx9: a SIMD has 800 scalar registers, allocated in steps of 16.
int64_t waves_by_scalars(const Unit& u, const KernelFacts& k) {
  if (k.wave != 64) return u.waves;
  return std::min<int64_t>(u.waves, 800 / round_up(std::max<int64_t>(k.scalar_registers, 16), 16));
}

constexpr double kCacheCycles = 700;       // a load from L2 or Infinity Cache under load (estimate)
constexpr double kStreamSeconds = 1.5e-6;  // a load from memory under load (the oracle's estimate)
constexpr double kBarrierCycles = 40;      // (estimate)
constexpr double kLdsBytes = 128, kL1Bytes = 64;

}  // namespace

double resident_workgroups(const KernelFacts& kernel, int64_t threads, const Target& target) {
  const Unit& u = unit_of(target.arch);
  const int64_t waves = ceil_div(threads, kernel.wave);
  const int64_t by_registers = u.registers / round_up(std::max<int64_t>(kernel.registers, 1), u.granule);
  const int64_t slots = u.simds * std::min({u.waves, by_registers, waves_by_scalars(u, kernel)});
  int64_t groups = slots / waves;
  if (waves > 1) groups = std::min(groups, u.workgroups);  // needs a barrier
  if (kernel.shared_bytes > 0)
    groups = std::min(groups, u.shared / round_up(kernel.shared_bytes, u.shared_step));
  return double(groups) / double(u.units);
}

double predicted_fraction(const LoopQuestion& q, const DeviceFacts& facts) {
  const GpuRates rates(facts);
  const LoopCounts& loop = q.loop;
  const double wave = rates.wave, simds = wave == 64 ? 4 : 2, issue = wave == 64 ? 4 : 1;
  const double waves = q.resident * double(q.threads) / wave, on_simd = std::max(1.0, waves / simds);
  const double matrix = double(loop.matrix) * q.matrix_cycles * on_simd;
  const int64_t vectors = loop.vector + 3 * loop.quarter_rate + loop.shared + loop.loads + loop.stores;
  const double vector = double(vectors) * issue * on_simd;
  const double one_wave = double(loop.all) * issue;
  const double lds = facts.target.arch == "gfx950" ? 2 * kLdsBytes : kLdsBytes;
  const double shared = double(loop.shared_bytes) * wave * waves / lds;
  const double moved = double(loop.load_bytes) * wave * waves;
  const double latency = q.bound == Bound::kMemory ? kStreamSeconds * rates.clock_hz : kCacheCycles;
  const double waiting = loop.loads > 0 ? latency * double(loop.loads) / double(loop.in_flight) : 0;
  const double cycles = std::max({matrix, vector, one_wave, shared, moved / kL1Bytes, waiting}) +
                        double(loop.barriers > 0 ? kBarrierCycles : 0);
  switch (q.bound) {
    case Bound::kMatrix: return matrix / cycles;
    case Bound::kMemory: {
      const double share = rates.memory_bytes_per_second / rates.units / rates.clock_hz;  // bytes per cycle
      return std::min(1.0, moved / cycles / share);
    }
    case Bound::kFma: {
      const double peak = rates.flops / rates.units / rates.clock_hz;  // per cycle
      return std::min(1.0, 2.0 * double(loop.products) * wave * waves / cycles / peak);
    }
  }
  return 0;
}

const char* name_of(Bound bound) {
  return bound == Bound::kMatrix ? "matrix" : bound == Bound::kMemory ? "memory" : "fma";
}

}  // namespace lathe
