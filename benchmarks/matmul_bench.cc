// matmul against the peers: cold weights, hot activations, every result checked. Beside f32 Lathe's own f32
// on the same shape runs in the contest too.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "contest.h"
#include "matmul_summary.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

struct Problem : Gemm {
  std::string name;
  bool odd = false;
};
constexpr int64_t kManyRows = 512;  // from here on two threads are measured against one

const char* name_of(Element element) { return kNamedElements[static_cast<int>(element)].name; }

double value_at(const void* data, Element element, int64_t i) {
  switch (element) {
    case Element::kF32: return static_cast<const float*>(data)[i];
    case Element::kF16:
    case Element::kF16Weights: return static_cast<double>(static_cast<const _Float16*>(data)[i]);
    case Element::kI8: return static_cast<const int8_t*>(data)[i];
    case Element::kBF16:
    case Element::kBF16Weights: break;
    case Element::kQ4:
    case Element::kQ4Int8: {
      const uint8_t* block = static_cast<const uint8_t*>(data) + i / 32 * 18;
      _Float16 scale;
      std::memcpy(&scale, block, 2);
      const int byte = block[2 + i % 16];
      return static_cast<double>(scale) * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
    }
  }
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(data)[i]} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// Samples of D against float64, within the error that any order of f32 sums stays well below. A column
// sampled is computed for its row alone.
bool is_right(const Problem& p, const void* a, const void* b, const void* d, uint64_t seed) {
  std::mt19937_64 engine(seed);
  for (int sample = 0; sample < 64; ++sample) {
    const int64_t i = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.m));
    const int64_t j = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.n));
    double sum = 0, magnitude = 0, largest = 0, weights = 0;
    const Element of_a = activations_of(p.element);
    for (int64_t q = 0; q < p.k; ++q) {
      const double x = value_at(a, of_a, i * p.k + q),
                   w = value_at(b, p.element, p.trans_b ? j * p.k + q : q * p.n + j);
      sum += x * w;
      magnitude += std::fabs(x * w);
      largest = std::max(largest, std::fabs(x));
      weights += std::fabs(w);
    }
    // Where A is rounded to bytes: in every product half a 127th of its block's largest, which is none above
    // the row's.
    const double rounded = p.element == Element::kQ4Int8 ? largest * weights * (0.5 / 127 + 0x1p-20) : 0;
    const bool exact = p.element == Element::kI8;
    const double bound =
        exact ? 0 : 6 * std::sqrt(static_cast<double>(p.k) + 4) * 0x1p-24 * magnitude + rounded;
    const int64_t at = i * p.n + j;
    const double got =
        exact ? static_cast<const int32_t*>(d)[at] : static_cast<double>(static_cast<const float*>(d)[at]);
    if (!(std::fabs(got - sum) <= bound)) {
      std::fprintf(stderr, "%s m=%ld: (%ld, %ld) is %g, expected %g within %g\n", p.name.c_str(),
                   static_cast<long>(p.m), static_cast<long>(i), static_cast<long>(j), got, sum, bound);
      return false;
    }
  }
  return true;
}

constexpr char kOwnF32[] = "own f32", kPacked[] = "packed", kOneThread[] = "one thread";
bool is_peer(const Standing& s) { return s.name != kOwnF32 && s.name != kPacked && s.name != kOneThread; }

// The weight packed for Lathe, and the same form at any other memory of that size.
struct PackedWeight {
  uint32_t layout = 0;  // 0: there is none
  size_t bytes = 0;
  double seconds = 0;  // to pack it
  std::vector<char> data;

  lathe_matmul_desc with(lathe_matmul_desc desc, void* b) const {
    desc.b.data = b;
    desc.b.packed_layout = layout;
    return desc;
  }
};

// Timed once more where its pages are there already, as they are when a loader reuses its memory.
PackedWeight pack_weight(lathe_device* device, const lathe_matmul_desc& desc) {
  PackedWeight packed;
  if (lathe_packed_layout(device, &desc, &packed.layout, &packed.bytes) != LATHE_OK) return {};
  packed.data.resize(packed.bytes);
  for (int i = 0; i < 2; ++i) {
    const double begin = now_seconds();
    if (!succeeded(lathe_pack_weights(device, &desc, packed.layout, packed.data.data(), packed.bytes),
                   "lathe_pack_weights"))
      return {};
    packed.seconds = now_seconds() - begin;
  }
  return packed;
}

const Standing* find(const std::vector<Standing>& standings, const char* name) {
  for (const Standing& s : standings)
    if (s.name == name) return &s;
  return nullptr;
}

class MatmulBench {
 public:
  explicit MatmulBench(const Bench& bench)
      : bench_(bench),
        device_(bench.options.threads, ""),
        one_thread_(1, ""),
        table_("matmul, " + std::to_string(bench.options.threads) + " thread(s)", {"dtype",
                                                                                   "weight",
                                                                                   "M",
                                                                                   "N",
                                                                                   "K",
                                                                                   "lathe us",
                                                                                   "GFLOP/s",
                                                                                   "of f32 roofline",
                                                                                   "best peer",
                                                                                   "peer us",
                                                                                   "vs best peer",
                                                                                   "quartiles",
                                                                                   "vs own f32",
                                                                                   "vs one thread",
                                                                                   "rounds",
                                                                                   "packed us",
                                                                                   "of f32 roofline",
                                                                                   "vs best peer",
                                                                                   "quartiles",
                                                                                   "vs unpacked",
                                                                                   "packing us"}) {}

  bool ok() const { return device_.ok() && one_thread_.ok(); }

  bool measure(const Problem& p) {
    if (2.0 * static_cast<double>(p.m) * static_cast<double>(p.n * p.k) > bench_.options.max_flop)
      return true;
    if (is_q4(p.element) && (p.k % 32 != 0 || !p.trans_b)) return true;
    const size_t weight_bytes = bench::weight_bytes(p.element, static_cast<size_t>(p.n * p.k));
    const size_t f32_bytes = static_cast<size_t>(p.n * p.k) * 4;
    if (bench_.pool->copies(f32_bytes) == 0) {
      std::fprintf(stderr, "%s: %zu bytes do not fit the pool\n", p.name.c_str(), f32_bytes);
      return true;
    }
    std::vector<char> a = bench_.pool->activations(p.element, static_cast<size_t>(p.m * p.k));
    a.resize(static_cast<size_t>(p.m * p.k) * 4);  // so that f32's own run has its A
    std::vector<float> d(static_cast<size_t>(p.m * p.n));
    std::mt19937_64 engine(bench_.options.seed + static_cast<uint64_t>(p.m));

    // One walk over the copies for everybody: none finds in the cache what another has just read.
    bool failed = false;
    size_t next = 0;
    const auto weights = [&] { return bench_.pool->copy(weight_bytes, next++); };
    std::vector<Entrant> entrants;
    entrants.push_back({"lathe", [&] {
                          const lathe_matmul_desc desc = linear(p, a.data(), weights(), d.data());
                          if (lathe_matmul(device_.get(), nullptr, &desc) != LATHE_OK) failed = true;
                        }});
    for (size_t i = 0; i < bench_.peers->size(); ++i) {
      auto run = (*bench_.peers)[i]->prepare(p);
      if (run)
        entrants.push_back({(*bench_.peers)[i]->name(), [&, run] { run(a.data(), weights(), d.data()); }});
    }
    const auto wrong = [&](const Entrant& entrant) {
      next = 0;
      std::fill(d.begin(), d.end(), std::numeric_limits<float>::quiet_NaN());
      entrant.call();
      return failed || !is_right(p, a.data(), bench_.pool->copy(weight_bytes, 0), d.data(), engine());
    };
    if (wrong(entrants[0])) return failed && succeeded(LATHE_INTERNAL, lathe_last_error());
    // A peer that is wrong is named and left out (oneDNN's products of bytes saturate on AVX2).
    const auto right = std::stable_partition(entrants.begin() + 1, entrants.end(),
                                             [&](const Entrant& entrant) { return !wrong(entrant); });
    for (auto peer = right; peer != entrants.end(); ++peer)
      std::fprintf(stderr, "%s is wrong, and left out\n", peer->name.c_str());
    entrants.erase(right, entrants.end());
    // The same weight packed. What the numbers of the other copies are then does not matter to its time.
    PackedWeight packed;
    if (bench_.options.packed) {
      const lathe_matmul_desc plain = linear(p, a.data(), bench_.pool->copy(weight_bytes, 0), d.data());
      packed = pack_weight(device_.get(), plain);
      if (packed.layout != 0) {
        std::fill(d.begin(), d.end(), std::numeric_limits<float>::quiet_NaN());
        const lathe_matmul_desc desc = packed.with(plain, packed.data.data());
        if (!succeeded(lathe_matmul(device_.get(), nullptr, &desc), "packed")) return false;
        if (!is_right(p, a.data(), bench_.pool->copy(weight_bytes, 0), d.data(), engine())) {
          std::fprintf(stderr, "packed is wrong\n");
          return false;
        }
        entrants.push_back({kPacked, [&] {
                              const lathe_matmul_desc desc =
                                  packed.with(linear(p, a.data(), nullptr, d.data()),
                                              bench_.pool->copy(packed.bytes, next++));
                              if (lathe_matmul(device_.get(), nullptr, &desc) != LATHE_OK) failed = true;
                            }});
      }
    }
    // What the numbers are as f32 does not matter to its time.
    Gemm f32 = p;
    f32.element = Element::kF32;
    if (p.element != Element::kF32) {
      entrants.push_back({kOwnF32, [&] {
                            const lathe_matmul_desc desc =
                                linear(f32, a.data(), bench_.pool->copy(f32_bytes, next++), d.data());
                            if (lathe_matmul(device_.get(), nullptr, &desc) != LATHE_OK) failed = true;
                          }});
      entrants.back().call();
    }
    if (bench_.options.threads > 1 && p.element == Element::kF32 && p.m >= kManyRows) {
      entrants.push_back({kOneThread, [&] {
                            const lathe_matmul_desc desc = linear(p, a.data(), weights(), d.data());
                            if (lathe_matmul(one_thread_.get(), nullptr, &desc) != LATHE_OK) failed = true;
                          }});
      entrants.back().call();
    }
    ContestOptions contest;
    contest.seconds = bench_.options.seconds;
    add(p, run_contest(entrants, contest), packed.seconds);
    return !failed;
  }

  void report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "matmul.csv");
    summary_.report(bench_.options.csv_directory, !bench_.options.smoke);
  }

 private:
  void add(const Problem& p, const std::vector<Standing>& standings, double packing_seconds) {
    const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const double bytes =
        static_cast<double>(weight_bytes(activations_of(p.element), static_cast<size_t>(p.m * p.k))) +
        static_cast<double>(weight_bytes(p.element, static_cast<size_t>(p.n * p.k))) +
        4.0 * static_cast<double>(p.m * p.n);
    const double limit = std::max(flops / bench_.fma_peak, bytes / bench_.read_bandwidth);
    const Standing& ours = standings[0];
    RooflinePoint point = {name_of(p.element), p.name + " M " + std::to_string(p.m), flops / bytes,
                           flops / ours.seconds};
    std::vector<std::string> row = {name_of(p.element),
                                    p.name,
                                    std::to_string(p.m),
                                    std::to_string(p.n),
                                    std::to_string(p.k),
                                    number(ours.seconds * 1e6, 1),
                                    number(flops / ours.seconds * 1e-9, 1),
                                    number(100 * limit / ours.seconds, 0) + "%"};
    const Standing *own = find(standings, kOwnF32), *packed = find(standings, kPacked),
                   *one = find(standings, kOneThread), *best = nullptr;
    for (auto peer = standings.begin() + 1; peer != standings.end(); ++peer)
      if (is_peer(*peer) && (best == nullptr || peer->seconds < best->seconds)) best = &*peer;
    const auto figures = [&](const Standing& s) {
      const auto over = [&](const Standing* other) { return other ? paired_ratio(s, *other).median : 0; };
      return MatmulFigures{p.element, p.m, p.odd, over(best), limit / s.seconds, over(own), over(one)};
    };
    summary_.add("plain", figures(ours));
    if (packed != nullptr) summary_.add("packed", figures(*packed));
    if (best == nullptr) {
      row.insert(row.end(), {"-", "-", "-", "-"});
    } else {
      const Ratio ratio = paired_ratio(ours, *best);
      row.insert(row.end(), {best->name, number(best->seconds * 1e6, 1), number(ratio.median, 2) + "x",
                             number(ratio.low, 2) + ".." + number(ratio.high, 2)});
      point.peer_flops = flops / best->seconds;
    }
    bench_.roofline->points.push_back(std::move(point));
    for (const Standing* other : {own, one})
      row.push_back(other != nullptr ? number(paired_ratio(ours, *other).median, 2) + "x" : "-");
    row.push_back(std::to_string(ours.rounds.size()));
    if (packed == nullptr) {
      row.insert(row.end(), 6, "-");
    } else {
      const Ratio of_peer = best == nullptr ? Ratio{} : paired_ratio(*packed, *best);
      row.insert(row.end(),
                 {number(packed->seconds * 1e6, 1), number(100 * limit / packed->seconds, 0) + "%",
                  best == nullptr ? "-" : number(of_peer.median, 2) + "x",
                  best == nullptr ? "-" : number(of_peer.low, 2) + ".." + number(of_peer.high, 2),
                  number(paired_ratio(*packed, ours).median, 2) + "x", number(packing_seconds * 1e6, 0)});
    }
    table_.add(row);
  }

  const Bench& bench_;
  BenchDevice device_, one_thread_;
  Table table_;
  MatmulSummary summary_;
};

}  // namespace

bool bench_matmul(const Bench& bench) {
  MatmulBench matmul(bench);
  if (!matmul.ok()) return false;
  const Options& options = bench.options;
  for (const auto& [name, element] : kNamedElements) {
    const auto& wanted = options.matmul_dtypes;
    if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    bench.pool->fill(element);
    const auto measure = [&, element = element](const Shape& weight, int64_t m, bool odd) {
      return matmul.measure({{m, weight.n, weight.k, options.trans_b, element}, weight.name, odd});
    };
    const auto measure_all = [&](const Shape& weight, bool odd) {
      for (const std::vector<int64_t>* list : {&options.decode_m, &options.prefill_m})
        for (int64_t m : *list)
          if (!measure(weight, m, odd)) return false;
      return true;
    };
    if (options.ragged && !measure({"ragged", 456, 51234}, 123, true)) return false;
    for (const Shape& shape : options.odd)
      if (!measure_all(shape, true)) return false;
    for (const Shape& shape : options.shapes)
      if (!measure_all(shape, false)) return false;
  }
  bench.pool->fill(Element::kF32);  // as it was
  matmul.report();
  return true;
}

}  // namespace lathe::bench
