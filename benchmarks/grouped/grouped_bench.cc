#include "grouped_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "../contest.h"
#include "../gguf/weights.h"
#include "../machine.h"
#include "../report.h"
#include "expert_loop.h"
#include "lathe_experts.h"

namespace lathe::bench {
namespace {

constexpr char kLathe[] = "lathe", kPacked[] = "lathe packed";
// Rounding A to int8 gives about 0.006, rounding it to bf16 0.002.
constexpr double kLargestError = 0.02;

enum class Side { kLathe, kGgml, kLoop, kReading };

// One library with one way to keep weights.
struct Contender {
  std::string name;
  Side side;
  std::function<void(size_t routing)> run;
  bool reads_plain;  // the memory of the weight as in the file
  double error = 0;
};

struct NamedSide {
  std::string name;
  Side side;
};
std::vector<NamedSide> names_of_contenders(const GroupedOptions& options) {
  std::vector<NamedSide> names = {{kLathe, Side::kLathe}, {kPacked, Side::kLathe}};
  for (const std::string& setting : options.ggml->settings())
    names.push_back({options.ggml->name() + " " + setting, Side::kGgml});
  for (const auto& loop : options.loops) names.push_back({"loop of " + loop->name(), Side::kLoop});
  return names;
}

std::vector<std::string> columns(const GroupedOptions& options) {
  std::vector<std::string> names = {"dtype", "weight", "N",       "K",      "experts",
                                    "used",  "M",      "threads", "chosen", "MB"};
  for (const NamedSide& named : names_of_contenders(options)) {
    names.push_back(named.name + " us");
    names.push_back(named.name + " error");
  }
  for (const char* name : {"best lathe", "GB/s", "GFLOP/s", "best ggml", "vs ggml", "quartiles", "best loop",
                           "vs loop", "quartiles of vs loop", "of reading", "read GB/s"})
    names.push_back(name);
  return names;
}

// Samples of the product with one routing, in float64, of activations that are not rounded.
class Samples {
 public:
  Samples(GgufPeer* peer, const ExpertsWeight& weight, const ExpertsCalls& calls, size_t routing,
          std::mt19937_64* engine)
      : routing(routing) {
    constexpr int kSamples = 256;
    std::vector<float> row(static_cast<size_t>(weight.k));
    const size_t row_bytes = peer->bytes(weight.format, weight.k);
    for (int sample = 0; sample < kSamples; ++sample) {
      const auto slot = static_cast<int64_t>((*engine)() % static_cast<uint64_t>(calls.m * calls.used));
      const auto j = static_cast<int64_t>((*engine)() % static_cast<uint64_t>(weight.n));
      const int64_t row_of_weight = calls.routings[routing][slot] * weight.n + j;
      peer->dequantise(weight.format,
                       static_cast<const char*>(weight.data) + row_bytes * static_cast<size_t>(row_of_weight),
                       weight.k, row.data());
      const float* const a = calls.a + (calls.shares_a ? slot / calls.used : slot) * weight.k;
      double sum = 0;
      for (int64_t q = 0; q < weight.k; ++q)
        sum += static_cast<double>(row[static_cast<size_t>(q)]) * static_cast<double>(a[q]);
      positions_.push_back(slot * weight.n + j);
      values_.push_back(sum);
    }
  }
  // Root of the mean squared error over that of the mean square.
  double error(const float* d) const {
    double errors = 0, squares = 0;
    for (size_t s = 0; s < values_.size(); ++s) {
      const double difference = static_cast<double>(d[positions_[s]]) - values_[s];
      errors += difference * difference;
      squares += values_[s] * values_[s];
    }
    return std::sqrt(errors / squares);
  }
  const size_t routing;

 private:
  std::vector<int64_t> positions_;  // in D
  std::vector<double> values_;
};

// Memory of floats, aligned for ggml.
struct Floats {
  explicit Floats(int64_t count)
      : size(static_cast<size_t>(count)),
        memory(allocate_huge(size * sizeof(float))),
        data(reinterpret_cast<float*>(memory.get())) {}
  size_t size;
  HugeMemory memory;
  float* data;
};

double least(const Standing& standing) {
  return *std::min_element(standing.rounds.begin(), standing.rounds.end());
}

class GroupedBench {
 public:
  explicit GroupedBench(const GroupedOptions& options)
      : options_(options),
        table_("Grouped products, " + std::to_string(options.threads) + " thread(s)", columns(options)) {
    table_.write_csv(options.csv_directory, "grouped.csv");
    lathe_context_options context = LATHE_CONTEXT_OPTIONS_INIT;
    context.workers = options.threads;
    context.cache_dir = options.cache_directory.c_str();
    if (lathe_context_create(&context, &context_) != LATHE_OK ||
        lathe_device_open(context_, "cpu", &device_) != LATHE_OK)
      std::fprintf(stderr, "%s\n", lathe_last_error());
  }
  ~GroupedBench() {
    lathe_device_close(device_);
    lathe_context_destroy(context_);
  }
  GroupedBench(const GroupedBench&) = delete;
  GroupedBench& operator=(const GroupedBench&) = delete;
  bool ok() const { return device_ != nullptr; }

  bool measure(const std::string& format, const ExpertsShape& shape);
  bool finish() const {
    table_.print();
    return table_.is_written() && !has_failed_;
  }

 private:
  // What one weight is measured with.
  struct Loaded {
    const ExpertsShape& shape;
    ExpertsWeight weight;
    size_t expert_bytes;
    std::unique_ptr<LatheExperts> plain, packed;
    std::vector<std::pair<std::string, std::unique_ptr<ExpertsLoaded>>> ggml;  // by setting
  };
  bool measure_tokens(const Loaded& loaded, int64_t m);
  bool check(const Loaded& loaded, const ExpertsCalls& calls, std::vector<Contender>* contenders);
  void add_row(const Loaded& loaded, const ExpertsCalls& calls, size_t chosen,
               const std::vector<Contender>& contenders, const std::vector<Standing>& standings);

  const GroupedOptions& options_;
  Table table_;
  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
  bool has_failed_ = false;
};

bool GroupedBench::measure(const std::string& format, const ExpertsShape& shape) {
  const int64_t block = format.find("_k") != std::string::npos ? 256 : 32;
  if (shape.k % block != 0) return true;
  const RandomWeight random(options_.ggml, format, shape.n * shape.experts, shape.k, 0, options_.seed, 1);
  const ExpertsWeight weight = {format, shape.experts, shape.n, shape.k, random.weight().copies[0]};
  Loaded loaded = {shape, weight, random.bytes() / static_cast<size_t>(shape.experts), nullptr, nullptr, {}};
  loaded.plain = std::make_unique<LatheExperts>(device_, weight);
  loaded.packed = std::make_unique<LatheExperts>(device_, weight);
  if (!loaded.packed->pack()) loaded.packed.reset();
  for (const std::string& setting : options_.ggml->settings())
    if (std::unique_ptr<ExpertsLoaded> experts = options_.ggml->load_experts(setting, weight))
      loaded.ggml.emplace_back(setting, std::move(experts));
  for (const int64_t m : options_.m) {
    const double flop = 2.0 * static_cast<double>(m * shape.used * shape.n * shape.k);
    if (flop <= options_.max_flop && !measure_tokens(loaded, m)) return false;
  }
  return true;
}

bool GroupedBench::check(const Loaded& loaded, const ExpertsCalls& calls,
                         std::vector<Contender>* contenders) {
  std::mt19937_64 engine(options_.seed);
  const Samples samples[] = {
      Samples(options_.ggml, loaded.weight, calls, 0, &engine),
      Samples(options_.ggml, loaded.weight, calls, calls.routings.size() - 1, &engine)};
  float* const end = calls.d + calls.m * calls.used * loaded.weight.n;
  for (Contender& contender : *contenders) {
    for (const Samples& sample : samples) {
      std::fill(calls.d, end, std::numeric_limits<float>::quiet_NaN());
      contender.run(sample.routing);
      const bool has_nan = std::any_of(calls.d, end, [](float value) { return std::isnan(value); });
      contender.error = std::max(contender.error, has_nan ? INFINITY : sample.error(calls.d));
    }
    if (contender.error < kLargestError) continue;
    std::fprintf(stderr, "%s: wrong result, relative error %g\n", contender.name.c_str(), contender.error);
    if (contender.side == Side::kLathe) return false;
  }
  return !has_failed_;
}

bool GroupedBench::measure_tokens(const Loaded& loaded, int64_t m) {
  const ExpertsShape& shape = loaded.shape;
  std::mt19937_64 engine(options_.seed + static_cast<uint64_t>(m));
  const Routings routings(shape, m, engine());
  Floats a(m * (shape.shares_a ? 1 : shape.used) * shape.k), d(m * shape.used * shape.n);
  std::normal_distribution<float> normal;
  std::generate_n(a.data, a.size, [&] { return normal(engine); });
  const ExpertsCalls calls = {m,      shape.used, shape.shares_a, options_.threads,
                              a.data, d.data,     routings.all()};

  std::vector<Contender> contenders;
  for (LatheExperts* lathe : {loaded.plain.get(), loaded.packed.get()})
    if (lathe != nullptr)
      contenders.push_back({lathe->is_packed() ? kPacked : kLathe, Side::kLathe,
                            [&, lathe](size_t routing) { has_failed_ |= !lathe->run(calls, routing); },
                            !lathe->is_packed()});
  std::vector<std::unique_ptr<ExpertsProduct>> products;
  for (const auto& [setting, experts] : loaded.ggml) {
    products.push_back(experts->prepare(calls));
    contenders.push_back({options_.ggml->name() + " " + setting, Side::kGgml,
                          [product = products.back().get()](size_t routing) { product->run(routing); },
                          setting == "plain"});
  }
  std::vector<std::unique_ptr<ExpertLoop>> loops;
  for (const auto& peer : options_.loops) {
    loops.push_back(ExpertLoop::make(peer.get(), loaded.weight, calls));
    if (loops.back() != nullptr)
      contenders.push_back({"loop of " + peer->name(), Side::kLoop,
                            [loop = loops.back().get()](size_t routing) { loop->run(routing); }, true});
  }
  if (!check(loaded, calls, &contenders)) return false;

  std::unique_ptr<Reader> reader;
  if (m == 1) {
    const auto* data = static_cast<const char*>(loaded.weight.data);
    reader = std::make_unique<Reader>(data, loaded.expert_bytes * static_cast<size_t>(shape.experts),
                                      options_.threads);
    contenders.push_back({"reading", Side::kReading,
                          [&, data](size_t routing) {
                            for (const int32_t e : routings.experts(routing))
                              reader->read(data + loaded.expert_bytes * static_cast<size_t>(e),
                                           loaded.expert_bytes);
                          },
                          true});
  }
  // Entrants that read the same memory share the next routing, so that none finds its experts in the cache.
  size_t next_plain = 0;
  std::vector<size_t> next(contenders.size());
  std::vector<Entrant> entrants;
  for (size_t i = 0; i < contenders.size(); ++i) {
    size_t* const turn = contenders[i].reads_plain ? &next_plain : &next[i];
    entrants.push_back({contenders[i].name, [&contenders, &calls, i, turn] {
                          contenders[i].run((*turn)++ % calls.routings.size());
                        }});
  }
  ContestOptions contest;
  contest.seconds = options_.seconds;
  contest.min_rounds = options_.rounds;
  add_row(loaded, calls, routings.experts(0).size(), contenders, run_contest(entrants, contest));
  return !has_failed_;
}

void GroupedBench::add_row(const Loaded& loaded, const ExpertsCalls& calls, size_t chosen,
                           const std::vector<Contender>& contenders, const std::vector<Standing>& standings) {
  const ExpertsShape& shape = loaded.shape;
  const double bytes = static_cast<double>(chosen * loaded.expert_bytes);
  const double flop = 2.0 * static_cast<double>(calls.m * calls.used * shape.n * shape.k);
  const Standing* best[4] = {};  // by side
  for (size_t i = 0; i < contenders.size(); ++i) {
    const Standing*& of_side = best[static_cast<int>(contenders[i].side)];
    if (contenders[i].error < kLargestError && (of_side == nullptr || least(standings[i]) < least(*of_side)))
      of_side = &standings[i];
  }
  std::vector<std::string> row = {loaded.weight.format,          shape.name,
                                  std::to_string(shape.n),       std::to_string(shape.k),
                                  std::to_string(shape.experts), std::to_string(shape.used),
                                  std::to_string(calls.m),       std::to_string(calls.threads),
                                  std::to_string(chosen),        number(1e-6 * bytes, 1)};
  for (const NamedSide& named : names_of_contenders(options_)) {
    size_t i = 0;
    while (i < contenders.size() && contenders[i].name != named.name) ++i;
    const bool is_there = i < contenders.size();
    row.push_back(is_there ? number(least(standings[i]) * 1e6, 1) : "-");
    row.push_back(is_there ? number(contenders[i].error, 5) : "-");
  }
  const Standing& ours = *best[static_cast<int>(Side::kLathe)];
  row.insert(row.end(),
             {ours.name, number(1e-9 * bytes / least(ours), 2), number(1e-9 * flop / least(ours), 1)});
  for (const Side side : {Side::kGgml, Side::kLoop}) {
    const Standing* const other = best[static_cast<int>(side)];
    if (other == nullptr) {
      row.insert(row.end(), {"-", "-", "-"});
      continue;
    }
    const Ratio ratio = paired_ratio(ours, *other);
    row.insert(row.end(), {other->name, number(ratio.median, 2) + "x",
                           number(ratio.low, 2) + ".." + number(ratio.high, 2)});
  }
  const Standing* const reading = best[static_cast<int>(Side::kReading)];
  row.push_back(reading ? number(100 * least(*reading) / least(ours), 0) + "%" : "-");
  row.push_back(reading ? number(1e-9 * bytes / least(*reading), 2) : "-");
  table_.add(row);
}

}  // namespace

bool bench_grouped(const GroupedOptions& options) {
  const Machine machine = describe_machine();
  std::printf("%s, seed %llu, last-level cache %zu MB\n", machine.name.c_str(),
              static_cast<unsigned long long>(options.seed), machine.last_level_cache_bytes >> 20);
  GroupedBench bench(options);
  if (!bench.ok()) return false;
  for (const ExpertsShape& shape : options.shapes)
    for (const std::string& format : options.formats)
      if (!bench.measure(format, shape)) return false;
  return bench.finish();
}

}  // namespace lathe::bench
