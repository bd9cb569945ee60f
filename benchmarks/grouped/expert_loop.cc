#include "expert_loop.h"

#include <algorithm>
#include <cstring>

namespace lathe::bench {
namespace {

// To the nearest, ties to even. The numbers are finite.
void round_row(const float* from, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    to[i] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace

std::unique_ptr<ExpertLoop> ExpertLoop::make(Peer* peer, const ExpertsWeight& weight,
                                             const ExpertsCalls& calls) {
  if (weight.format != "f32" && weight.format != "bf16") return nullptr;
  std::unique_ptr<ExpertLoop> loop(new ExpertLoop(weight, calls));
  loop->is_bf16_ = weight.format == "bf16";
  int64_t most = 0;
  for (size_t r = 0; r < calls.routings.size(); ++r) {
    loop->sort_slots(r);
    for (int64_t e = 0; e < weight.groups; ++e) {
      Gemm gemm;
      gemm.m = loop->first_[static_cast<size_t>(e) + 1] - loop->first_[static_cast<size_t>(e)];
      gemm.n = weight.n;
      gemm.k = weight.k;
      gemm.element = loop->is_bf16_ ? Element::kBF16 : Element::kF32;
      if (gemm.m == 0 || loop->products_.count(gemm.m) != 0) continue;
      most = std::max(most, gemm.m);
      Product product = peer->prepare(gemm);
      if (product == nullptr) return nullptr;
      loop->products_[gemm.m] = std::move(product);
    }
  }
  loop->a_.resize(static_cast<size_t>(most * weight.k));
  loop->d_.resize(static_cast<size_t>(most * weight.n));
  return loop;
}

void ExpertLoop::sort_slots(size_t routing) {
  const int32_t* const ids = calls_.routings[routing];
  const int64_t slots = calls_.m * calls_.used;
  first_.assign(static_cast<size_t>(weight_.groups) + 2, 0);
  slots_.resize(static_cast<size_t>(slots));
  for (int64_t s = 0; s < slots; ++s) ++first_[static_cast<size_t>(ids[s]) + 2];
  for (size_t e = 2; e < first_.size(); ++e) first_[e] += first_[e - 1];
  for (int64_t s = 0; s < slots; ++s)
    slots_[static_cast<size_t>(first_[static_cast<size_t>(ids[s]) + 1]++)] = static_cast<int32_t>(s);
}

const float* ExpertLoop::a_row(int64_t slot) const {
  return calls_.a + (calls_.shares_a ? slot / calls_.used : slot) * weight_.k;
}

const void* ExpertLoop::gather(const int32_t* slots, int64_t count) {
  const int64_t k = weight_.k;
  if (count == 1 && !is_bf16_) return a_row(slots[0]);
  for (int64_t i = 0; i < count; ++i) {
    if (is_bf16_)
      round_row(a_row(slots[i]), k, reinterpret_cast<uint16_t*>(a_.data()) + i * k);
    else
      std::memcpy(a_.data() + i * k, a_row(slots[i]), static_cast<size_t>(k) * sizeof(float));
  }
  return a_.data();
}

void ExpertLoop::run(size_t routing) {
  sort_slots(routing);
  const auto n = weight_.n;
  const size_t row_bytes = static_cast<size_t>(n) * sizeof(float);
  const size_t expert_bytes = static_cast<size_t>(n * weight_.k) * (is_bf16_ ? 2 : 4);
  for (size_t e = 0; e < static_cast<size_t>(weight_.groups); ++e) {
    const int64_t count = first_[e + 1] - first_[e];
    if (count == 0) continue;
    const int32_t* const slots = &slots_[static_cast<size_t>(first_[e])];
    float* const d = count == 1 ? calls_.d + slots[0] * n : d_.data();
    products_.at(count)(gather(slots, count), static_cast<const char*>(weight_.data) + e * expert_bytes, d);
    if (count == 1) continue;
    for (int64_t i = 0; i < count; ++i) std::memcpy(calls_.d + slots[i] * n, d + i * n, row_bytes);
  }
}

}  // namespace lathe::bench
