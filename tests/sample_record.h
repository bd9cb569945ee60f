// Sample records of plans and tuning.
#pragma once

#include "core/plan_record.h"

namespace lathe {

// A record of a matmul with the given M, N = 40 and K = 33. The oracle's first choice is the slower of two measured
// candidates.
inline PlanRecord sample_record(RecordKind kind, int64_t m = 7) {
  PlanRecord r;
  r.kind = kind;
  r.problem.a = r.problem.b = r.problem.d = DType::kF32;
  r.problem.trans_b = 1;
  r.problem.n = 40;
  r.problem.k = 33;
  r.problem.m_lo = m_bucket(m).lo;
  r.problem.m_hi = m_bucket(m).hi;
  r.target.arch = "x86-64";
  r.target.features = "+avx,+avx2";
  r.codegen = "0123456789abcdef-llvm22.1.8";
  r.oracle = "fedcba9876543210";
  PanelConfig config;
  config.tile_m = 32, config.tile_n = 64, config.tile_k = 128;
  config.register_m = 6, config.register_n = 2;
  config.split = kMergeStep;
  r.config = config;
  r.splits = 3;
  if (kind == RecordKind::kPlan) return r;
  r.device = "a processor";
  r.units = 4;
  PanelConfig first = config;
  first.tile_k = 256;
  r.measured = {{first, 1, 1.5e-5, 2.25e-5}, {r.config, 3, 1.75e-5, 1.0 / 3 * 1e-5}};
  return r;
}

}  // namespace lathe
