#include "gguf_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "../contest.h"
#include "../machine.h"
#include "../report.h"
#include "lathe_entrant.h"
#include "weights.h"

namespace lathe::bench {
namespace {

constexpr char kLathe[] = "lathe", kPacked[] = "lathe packed", kReading[] = "reading";
// Rounding A to int8 gives about 0.006. ik_llama.cpp also rounds weights of some formats again (about 0.01).
constexpr double kLargestError = 0.02;

// One library with one way to keep weights.
struct Contender {
  std::string name;  // "ggml amx"
  std::function<void(size_t copy)> run;
  size_t*
      next;  // copy; contenders that read the same memory share it, so that none finds its copy in the cache
  double error = 0;
  bool is_lathe = false;
};

std::vector<std::string> names_of_contenders(const GgufOptions& options) {
  std::vector<std::string> names = {kLathe, kPacked};
  for (const GgufPeer* peer : options.peers)
    for (const std::string& setting : peer->settings()) names.push_back(peer->name() + " " + setting);
  return names;
}

std::vector<std::string> columns(const GgufOptions& options) {
  std::vector<std::string> names = {"dtype", "weight", "N", "K", "M", "threads"};
  for (const std::string& name : names_of_contenders(options)) {
    names.push_back(name + " us");
    names.push_back(name + " error");
  }
  for (const char* name : {"lathe GB/s", "lathe GFLOP/s", "best peer", "peer GB/s", "peer GFLOP/s",
                           "vs best peer", "median vs best peer", "quartiles", "of reading", "read GB/s"})
    names.push_back(name);
  return names;
}

class GgufBench {
 public:
  explicit GgufBench(const GgufOptions& options)
      : options_(options),
        table_("GGUF weights, " + std::to_string(options.threads) + " thread(s)", columns(options)) {
    table_.write_csv(options.csv_directory, "gguf.csv");
    lathe_context_options context = LATHE_CONTEXT_OPTIONS_INIT;
    context.workers = options.threads;
    context.cache_dir = "";
    if (lathe_context_create(&context, &context_) != LATHE_OK ||
        lathe_device_open(context_, "cpu", &device_) != LATHE_OK)
      std::fprintf(stderr, "%s\n", lathe_last_error());
  }
  ~GgufBench() {
    lathe_device_close(device_);
    lathe_context_destroy(context_);
  }
  GgufBench(const GgufBench&) = delete;
  GgufBench& operator=(const GgufBench&) = delete;
  bool ok() const { return device_ != nullptr; }

  bool measure(const std::string& format, const Shape& shape);
  bool finish() const {
    table_.print();
    return table_.is_written() && !has_failed_;
  }

 private:
  struct LoadedPeer {
    std::string name;
    bool is_plain;
    std::unique_ptr<GgufLoaded> loaded;
    size_t next = 0;
  };
  void load_peers(const GgufWeight& weight);
  bool measure_rows(const RandomWeight& random, const Shape& shape, int64_t m);
  bool check(std::vector<Contender>* contenders, const Reference& reference, float* d, size_t elements);
  void add_row(const RandomWeight& random, const Shape& shape, int64_t m,
               const std::vector<Contender>& contenders, const std::vector<Standing>& standings);

  const GgufOptions& options_;
  Table table_;
  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
  bool has_failed_ = false;
  std::vector<LoadedPeer> peers_;
  std::unique_ptr<LatheProduct> plain_, packed_;
};

void GgufBench::load_peers(const GgufWeight& weight) {
  peers_.clear();
  for (GgufPeer* peer : options_.peers) {
    if (peer->bytes(weight.format, weight.k) == 0) continue;
    for (const std::string& setting : peer->settings())
      if (std::unique_ptr<GgufLoaded> loaded = peer->load(setting, weight))
        peers_.push_back({peer->name() + " " + setting, setting == "plain", std::move(loaded)});
  }
}

bool GgufBench::measure(const std::string& format, const Shape& shape) {
  const int64_t block = format.find("_k") != std::string::npos || format == "iq4_xs" ? 256 : 32;
  if (shape.k % block != 0) return true;
  const RandomWeight random(options_.peers[0], format, shape.n, shape.k, options_.rotate_bytes,
                            options_.seed);
  load_peers(random.weight());
  plain_ = std::make_unique<LatheProduct>(device_, random.weight());
  packed_ = std::make_unique<LatheProduct>(device_, random.weight());
  if (packed_->pack())
    std::fprintf(stderr, "%s %s: packs %.1f GB/s, %.0f %% of memcpy\n", format.c_str(), shape.name.c_str(),
                 1e-9 * static_cast<double>(random.bytes()) / packed_->pack_seconds(),
                 100 * packed_->copy_seconds() / packed_->pack_seconds());
  else
    packed_.reset();
  for (const int64_t m : options_.m)
    if (2.0 * static_cast<double>(m * shape.n * shape.k) <= options_.max_flop &&
        !measure_rows(random, shape, m))
      return false;
  return true;
}

bool GgufBench::check(std::vector<Contender>* contenders, const Reference& reference, float* d,
                      size_t elements) {
  for (Contender& contender : *contenders) {
    std::fill_n(d, elements, std::numeric_limits<float>::quiet_NaN());
    contender.run(0);
    contender.error = reference.error(d);
    const auto is_nan = [](float value) { return std::isnan(value); };
    const bool is_right = contender.error < kLargestError && std::none_of(d, d + elements, is_nan);
    if (is_right) continue;
    std::fprintf(stderr, "%s: wrong result, relative error %g\n", contender.name.c_str(), contender.error);
    if (contender.is_lathe) return false;
  }
  return !has_failed_;
}

bool GgufBench::measure_rows(const RandomWeight& random, const Shape& shape, int64_t m) {
  const GgufWeight& weight = random.weight();
  std::mt19937_64 engine(options_.seed + static_cast<uint64_t>(m));
  std::normal_distribution<float> normal;
  HugeMemory memory = allocate_huge(static_cast<size_t>(m * shape.k) * sizeof(float));
  auto* a = reinterpret_cast<float*>(memory.get());
  std::generate_n(a, m * shape.k, [&] { return normal(engine); });
  const auto elements = static_cast<size_t>(m * shape.n);
  HugeMemory output = allocate_huge(elements * sizeof(float));  // ggml wants aligned memory
  auto* d = reinterpret_cast<float*>(output.get());

  size_t next_plain = 0, next_packed = 0;
  std::vector<std::unique_ptr<GgufProduct>> products;
  std::vector<Contender> contenders;
  for (LatheProduct* lathe : {plain_.get(), packed_.get()})
    if (lathe != nullptr)
      contenders.push_back({lathe->is_packed() ? kPacked : kLathe,
                            [&, lathe](size_t copy) { has_failed_ |= !lathe->run(m, a, d, copy); },
                            lathe->is_packed() ? &next_packed : &next_plain, 0, true});
  for (LoadedPeer& peer : peers_) {
    products.push_back(peer.loaded->prepare(m, options_.threads, a, d));
    contenders.push_back({peer.name, [product = products.back().get()](size_t copy) { product->run(copy); },
                          peer.is_plain ? &next_plain : &peer.next});
  }
  if (!check(&contenders, Reference(options_.peers[0], weight, m, a, options_.seed), d, elements))
    return false;

  std::vector<Entrant> entrants;
  for (Contender& contender : contenders)
    entrants.push_back({contender.name, [&] { contender.run((*contender.next)++ % weight.copies.size()); }});
  std::unique_ptr<Reader> reader;
  if (m == 1) {
    reader = std::make_unique<Reader>(random.pool(), random.pool_bytes(), options_.threads);
    entrants.push_back({kReading, [&] {
                          reader->read(weight.copies[next_plain++ % weight.copies.size()], random.bytes());
                        }});
  }
  ContestOptions contest;
  contest.seconds = options_.seconds;
  contest.min_rounds = options_.rounds;
  add_row(random, shape, m, contenders, run_contest(entrants, contest));
  return !has_failed_;
}

double least(const Standing& standing) {
  return *std::min_element(standing.rounds.begin(), standing.rounds.end());
}

void GgufBench::add_row(const RandomWeight& random, const Shape& shape, int64_t m,
                        const std::vector<Contender>& contenders, const std::vector<Standing>& standings) {
  const auto faster = [](const Standing* one, const Standing* other) {
    return !one || least(*other) < least(*one);
  };
  const Standing *ours = nullptr, *best = nullptr, *reading = nullptr;
  std::vector<std::string> row = {random.weight().format,  shape.name,
                                  std::to_string(shape.n), std::to_string(shape.k),
                                  std::to_string(m),       std::to_string(options_.threads)};
  for (const std::string& name : names_of_contenders(options_)) {
    size_t i = 0;
    while (i < contenders.size() && contenders[i].name != name) ++i;
    if (i == contenders.size()) {
      row.insert(row.end(), {"-", "-"});
      continue;
    }
    row.insert(row.end(), {number(least(standings[i]) * 1e6, 1), number(contenders[i].error, 5)});
    const Standing** place = contenders[i].is_lathe ? &ours : &best;
    if (contenders[i].error < kLargestError && faster(*place, &standings[i])) *place = &standings[i];
  }
  if (standings.size() > contenders.size()) reading = &standings.back();
  const double giga_bytes = 1e-9 * static_cast<double>(random.bytes());
  const double giga_flop = 2e-9 * static_cast<double>(m * shape.n * shape.k);
  const Ratio ratio = paired_ratio(*ours, *best);
  row.insert(row.end(), {number(giga_bytes / least(*ours), 2), number(giga_flop / least(*ours), 1),
                         best->name, number(giga_bytes / least(*best), 2),
                         number(giga_flop / least(*best), 1), number(least(*best) / least(*ours), 2) + "x",
                         number(ratio.median, 2) + "x", number(ratio.low, 2) + ".." + number(ratio.high, 2),
                         reading ? number(100 * least(*reading) / least(*ours), 0) + "%" : "-",
                         reading ? number(giga_bytes / least(*reading), 2) : "-"});
  table_.add(row);
}

}  // namespace

bool bench_gguf(const GgufOptions& options) {
  const Machine machine = describe_machine();
  std::printf("%s, seed %llu; weights rotate over %zu MB each, last-level cache %zu MB\n",
              machine.name.c_str(), static_cast<unsigned long long>(options.seed), options.rotate_bytes >> 20,
              machine.last_level_cache_bytes >> 20);
  GgufBench bench(options);
  if (!bench.ok()) return false;
  for (const Shape& shape : options.shapes)
    for (const std::string& format : options.formats)
      if (!bench.measure(format, shape)) return false;
  return bench.finish();
}

}  // namespace lathe::bench
