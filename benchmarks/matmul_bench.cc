// matmul against the peers, with cold weights and hot activations. Every result is checked. For types other
// than f32, Lathe's f32 matmul of the same shape takes part too.
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
#include "sample_check.h"

namespace lathe::bench {
namespace {

struct Problem : Gemm {
  std::string name;
  Sizes sizes = Sizes::kLayer;
};
constexpr int64_t kManyRows = 512;  // from here on several threads are measured against one

const char* name_of(Element element) { return kNamedElements[static_cast<int>(element)].name; }

constexpr char kOwnF32[] = "own f32", kPacked[] = "packed", kOneThread[] = "one thread",
               kReading[] = "reading";
bool is_peer(const Standing& s) {
  return s.name != kOwnF32 && s.name != kPacked && s.name != kOneThread && s.name != kReading;
}

// A weight packed for Lathe. Its layout also describes any other memory of that size.
struct PackedWeight {
  uint32_t layout = 0;  // 0: this weight cannot be packed
  size_t bytes = 0;
  double seconds = 0;  // to pack it
  std::vector<char> data;

  lathe_matmul_desc with(lathe_matmul_desc desc, void* b) const {
    desc.b.data = b;
    desc.b.packed_layout = layout;
    return desc;
  }
};

// Packs twice and keeps the second time: the pages are mapped by then, as when a loader reuses its memory.
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
                                                                                   "packing us",
                                                                                   "of reading",
                                                                                   "packed of reading"}) {}

  bool ok() const { return device_.ok() && one_thread_.ok(); }

  bool measure(const Problem& p) {
    if (2.0 * static_cast<double>(p.m) * static_cast<double>(p.n * p.k) > bench_.options.max_flop) {
      std::fprintf(stderr, "%s, M = %ld: left out, needs more than --max_gflop\n", p.name.c_str(),
                   static_cast<long>(p.m));
      return true;
    }
    if (is_q4(p.element) && (p.k % 32 != 0 || !p.trans_b)) return true;
    const size_t weight_bytes = bench::weight_bytes(p.element, static_cast<size_t>(p.n * p.k));
    const size_t f32_bytes = static_cast<size_t>(p.n * p.k) * 4;
    if (bench_.pool->copies(f32_bytes) == 0) {
      std::fprintf(stderr, "%s: left out, its %zu bytes are more than --pool_bytes\n", p.name.c_str(),
                   f32_bytes);
      return true;
    }
    const auto activations = static_cast<size_t>(p.m * p.k);
    std::vector<char> a = bench_.pool->activations(p.element, activations), a_of_f32;
    std::vector<float> d(static_cast<size_t>(p.m * p.n));
    std::mt19937_64 engine(bench_.options.seed + static_cast<uint64_t>(p.m));

    // All entrants share one sequence of copies, so that none finds in the cache what another has just read.
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
      return failed || !is_right(p, p.name, a.data(), bench_.pool->copy(weight_bytes, 0), d.data(), engine());
    };
    if (wrong(entrants[0])) return failed && succeeded(LATHE_INTERNAL, lathe_last_error());
    // A peer with wrong results is named and left out (oneDNN's int8 products saturate on AVX2).
    const auto right = std::stable_partition(entrants.begin() + 1, entrants.end(),
                                             [&](const Entrant& entrant) { return !wrong(entrant); });
    for (auto peer = right; peer != entrants.end(); ++peer)
      std::fprintf(stderr, "%s: left out, its result is wrong\n", peer->name.c_str());
    entrants.erase(right, entrants.end());
    // The packed weight. Only its first copy holds the right numbers; the numbers do not affect the time.
    PackedWeight packed;
    if (bench_.options.packed) {
      const lathe_matmul_desc plain = linear(p, a.data(), bench_.pool->copy(weight_bytes, 0), d.data());
      packed = pack_weight(device_.get(), plain);
      if (packed.layout != 0) {
        std::fill(d.begin(), d.end(), std::numeric_limits<float>::quiet_NaN());
        const lathe_matmul_desc desc = packed.with(plain, packed.data.data());
        if (!succeeded(lathe_matmul(device_.get(), nullptr, &desc), "packed")) return false;
        if (!is_right(p, p.name, a.data(), bench_.pool->copy(weight_bytes, 0), d.data(), engine())) {
          std::fprintf(stderr, "%s: the result with packed weights is wrong\n", p.name.c_str());
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
    // Reads the same memory as f32: the numbers do not affect the time.
    Gemm f32 = p;
    f32.element = Element::kF32;
    if (p.element != Element::kF32) {
      a_of_f32 = bench_.pool->activations(Element::kF32, activations);
      entrants.push_back({kOwnF32, [&] {
                            const lathe_matmul_desc desc =
                                linear(f32, a_of_f32.data(), bench_.pool->copy(f32_bytes, next++), d.data());
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
    // A matmul with one row of A is compared with reading the weight.
    if (p.m == 1) entrants.push_back({kReading, [&] { bench_.reader->read(weights(), weight_bytes); }});
    ContestOptions contest;
    contest.seconds = bench_.options.seconds;
    add(p, run_contest(entrants, contest), packed.seconds);
    return !failed;
  }

  // Returns false if a table cannot be written.
  [[nodiscard]] bool report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "matmul.csv");
    return summary_.report(bench_.options.csv_directory, !bench_.options.smoke) && table_.is_written();
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
                   *one = find(standings, kOneThread), *reading = find(standings, kReading), *best = nullptr;
    for (auto peer = standings.begin() + 1; peer != standings.end(); ++peer)
      if (is_peer(*peer) && (best == nullptr || peer->seconds < best->seconds)) best = &*peer;
    const auto figures = [&](const Standing& s) {
      const auto over = [&](const Standing* other) { return other ? paired_ratio(s, *other).median : 0; };
      return MatmulFigures{p.element,         p.m,           p.sizes,   over(best),
                           limit / s.seconds, over(reading), over(own), over(one)};
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
    for (const Standing* s : {&ours, packed}) {
      const bool both = reading != nullptr && s != nullptr;
      row.push_back(both ? number(100 * paired_ratio(*s, *reading).median, 0) + "%" : "-");
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
    const auto measure = [&, element = element](const Shape& weight, int64_t m, Sizes sizes) {
      return matmul.measure({{m, weight.n, weight.k, options.trans_b, element}, weight.name, sizes});
    };
    const auto measure_all = [&](const Shape& weight, Sizes sizes) {
      for (const std::vector<int64_t>* list : {&options.decode_m, &options.prefill_m})
        for (int64_t m : *list)
          if (!measure(weight, m, sizes)) return false;
      return true;
    };
    if (options.ragged && !measure({"ragged", 456, 51234}, 123, Sizes::kRagged)) return false;
    for (const Shape& shape : options.odd)
      if (!measure_all(shape, Sizes::kOdd)) return false;
    for (const Shape& shape : options.shapes)
      if (!measure_all(shape, Sizes::kLayer)) return false;
  }
  bench.pool->fill(Element::kF32);  // other modes expect f32
  return matmul.report();
}

}  // namespace lathe::bench
