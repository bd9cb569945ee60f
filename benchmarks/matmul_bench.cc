// matmul against the peers: cold weights, hot activations, every result checked. Beside f32 Lathe's own f32
// on the same shape runs in the contest too.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

#include "contest.h"
#include "options.h"
#include "report.h"

namespace lathe::bench {
namespace {

struct Problem : Gemm {
  std::string name;
};

const char* name_of(Element element) { return kNamedElements[static_cast<int>(element)].name; }

double value_at(const void* data, Element element, int64_t i) {
  switch (element) {
    case Element::kF32: return static_cast<const float*>(data)[i];
    case Element::kF16: return static_cast<double>(static_cast<const _Float16*>(data)[i]);
    case Element::kI8: return static_cast<const int8_t*>(data)[i];
    case Element::kBF16: break;
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
    const Element of_a = is_q4(p.element) ? Element::kF32 : p.element;
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

struct Row {
  double ratio = 0, packed = 0;  // of the better peer; packed 0: not measured
  int64_t m = 0;
  bool ragged = false;
  Element element = Element::kF32;
};
constexpr char kOwnF32[] = "own f32", kPacked[] = "packed";

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
                                                                                   "rounds",
                                                                                   "packed us",
                                                                                   "of f32 roofline",
                                                                                   "vs best peer",
                                                                                   "quartiles",
                                                                                   "vs unpacked",
                                                                                   "packing us"}) {}

  bool ok() const { return device_.ok(); }

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
    // As many f32 as elements, so that f32's own run has its A.
    std::vector<float> a(static_cast<size_t>(p.m * p.k)), d(static_cast<size_t>(p.m * p.n));
    std::mt19937_64 engine(bench_.options.seed + static_cast<uint64_t>(p.m));
    if (is_q4(p.element)) {
      std::normal_distribution<float> normal;
      for (float& x : a) x = normal(engine);
    } else {
      std::memcpy(a.data(), bench_.pool->data(), bench::weight_bytes(p.element, a.size()));
    }

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
    ContestOptions contest;
    contest.seconds = bench_.options.seconds;
    add(p, run_contest(entrants, contest), packed.seconds);
    return !failed;
  }

  void report() {
    table_.print();
    table_.write_csv(bench_.options.csv_directory, "matmul.csv");
    for (const auto& [name, element] : kNamedElements) {
      const auto print = [&, name = name, element = element](const char* rows, auto belongs) {
        print_mean(std::string(name) + ", " + rows,
                   [&](const Row& row) { return row.element == element && belongs(row); });
      };
      print("M 1..64 and the ragged K", [](const Row& row) { return row.m <= 64 || row.ragged; });
      print("M 65..511", [](const Row& row) { return row.m > 64 && row.m < 512 && !row.ragged; });
      print("M >= 512", [](const Row& row) { return row.m >= 512; });
    }
  }

 private:
  void add(const Problem& p, const std::vector<Standing>& standings, double packing_seconds) {
    const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const double bytes = static_cast<double>(weight_bytes(is_q4(p.element) ? Element::kF32 : p.element,
                                                          static_cast<size_t>(p.m * p.k))) +
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
    const Standing* own = find(standings, kOwnF32);
    const Standing* packed = find(standings, kPacked);
    const auto end = standings.end() - (own != nullptr) - (packed != nullptr);
    const auto best = std::min_element(standings.begin() + 1, end, [](const Standing& x, const Standing& y) {
      return x.seconds < y.seconds;
    });
    if (best == end) {
      row.insert(row.end(), {"-", "-", "-", "-"});
    } else {
      const Ratio ratio = paired_ratio(ours, *best);
      row.insert(row.end(), {best->name, number(best->seconds * 1e6, 1), number(ratio.median, 2) + "x",
                             number(ratio.low, 2) + ".." + number(ratio.high, 2)});
      ratios_.push_back({ratio.median, packed == nullptr ? 0 : paired_ratio(*packed, *best).median, p.m,
                         p.k > 50000, p.element});
      point.peer_flops = flops / best->seconds;
    }
    bench_.roofline->points.push_back(std::move(point));
    row.push_back(own != nullptr ? number(paired_ratio(ours, *own).median, 2) + "x" : "-");
    row.push_back(std::to_string(ours.rounds.size()));
    if (packed == nullptr) {
      row.insert(row.end(), 6, "-");
    } else {
      const Ratio of_peer = best == end ? Ratio{} : paired_ratio(*packed, *best);
      row.insert(row.end(),
                 {number(packed->seconds * 1e6, 1), number(100 * limit / packed->seconds, 0) + "%",
                  best == end ? "-" : number(of_peer.median, 2) + "x",
                  best == end ? "-" : number(of_peer.low, 2) + ".." + number(of_peer.high, 2),
                  number(paired_ratio(*packed, ours).median, 2) + "x", number(packing_seconds * 1e6, 0)});
    }
    table_.add(row);
  }

  template <typename Belongs>
  void print_mean(const std::string& name, const Belongs& belongs) const {
    for (double Row::*ratio : {&Row::ratio, &Row::packed}) {
      std::vector<double> ratios;
      for (const Row& row : ratios_)
        if (belongs(row) && row.*ratio > 0) ratios.push_back(row.*ratio);
      if (ratios.empty()) continue;
      std::printf("%s%s: %.2fx the better peer (geometric mean of %zu shapes, worst %.2fx)\n", name.c_str(),
                  ratio == &Row::packed ? ", weights packed" : "", geometric_mean(ratios), ratios.size(),
                  *std::min_element(ratios.begin(), ratios.end()));
    }
  }

  const Bench& bench_;
  BenchDevice device_;
  Table table_;
  std::vector<Row> ratios_;
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
    const auto measure = [&, element = element](const std::string& weight, int64_t m, int64_t n, int64_t k) {
      return matmul.measure({{m, n, k, options.trans_b, element}, weight});
    };
    if (options.ragged && !measure("ragged", 123, 456, 51234)) return false;
    for (const Shape& shape : options.shapes)
      for (const std::vector<int64_t>* list : {&options.decode_m, &options.prefill_m})
        for (int64_t m : *list)
          if (!measure(shape.name, m, shape.n, shape.k)) return false;
  }
  bench.pool->fill(Element::kF32);  // as it was
  matmul.report();
  return true;
}

}  // namespace lathe::bench
