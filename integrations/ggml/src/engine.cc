#include "engine.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "ggml-impl.h"
#include "team.h"
#include "weights.h"

namespace lathe_ggml {
namespace {

constexpr int kMaxThreads = 1024;

struct Engines {
  std::mutex mutex;
  std::map<int, Engine*> by_threads;
  Engine* last = nullptr;
};
Engines& engines() {
  static Engines* all = new Engines;
  return *all;
}

int all_processors() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

// One line on standard error, rewritten in place if that is a terminal.
struct ProgressLine {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  static int32_t show(void* user, const lathe_warmup_progress* p) {
    auto* line = static_cast<ProgressLine*>(user);
    if (p->status != LATHE_OK) {
      std::fprintf(stderr, "lathe: %s: %s\n", p->problem, p->error);
    } else if (line->terminal) {
      std::fprintf(stderr, "\rlathe: preparing kernels: %d of %d ", static_cast<int>(p->done),
                   static_cast<int>(p->total));
    }
    return 0;
  }
};

bool add_weight(lathe_manifest* manifest, const Weight& weight) {
  lathe_matmul_desc desc = weight_desc(weight.type, weight.n, weight.k);
  if (weight.packed) desc.b.packed_layout = weight.packed_layout;
  return lathe_manifest_add_matmul(manifest, weight.name, &desc, weight.m_max.load()) == LATHE_OK;
}

// Identifies the class of a product well enough to queue it once.
std::string text_of(const lathe_matmul_desc& d) {
  char text[160];
  std::snprintf(text, sizeof(text), "%d.%d.%d.%d.%d m%lld n%lld k%lld", d.a.dtype, d.b.dtype, d.a.layout,
                d.b.layout, d.batch > 1, static_cast<long long>(d.m), static_cast<long long>(d.n),
                static_cast<long long>(d.k));
  return text;
}

bool is_ready(lathe_device* device, lathe_matmul_desc desc, lathe_miss_policy policy) {
  desc.miss_policy = policy;
  lathe_plan* plan = nullptr;
  const lathe_status status = lathe_plan_matmul(device, &desc, &plan);
  lathe_plan_destroy(plan);
  return status == LATHE_OK;
}

bool is_empty(const lathe_matmul_desc& d) { return d.m == 0 || d.n == 0 || d.batch == 0 || d.k == 0; }

}  // namespace

Miss miss_policy() {
  static const char* const asked = std::getenv("LATHE_GGML_MISS");
  if (asked != nullptr) return std::strcmp(asked, "block") == 0 ? Miss::kBlock : Miss::kBackground;
  return weight_changes() == 0 ? Miss::kBlock : Miss::kBackground;
}

bool packing_pays(ggml_type type) {
  static const char* const asked = std::getenv("LATHE_GGML_PACK");
  if (asked == nullptr || std::strcmp(asked, "") == 0) return is_block_format(type);
  return std::strcmp(asked, "0") != 0;
}

Engine* Engine::of(int threads) {
  threads = std::min(std::max(threads, 1), kMaxThreads);
  Engines& all = engines();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Engine*& engine = all.by_threads[threads];
  if (engine == nullptr) {
    auto made = std::unique_ptr<Engine>(new Engine(threads));
    if (!made->open()) {
      GGML_LOG_ERROR("lathe: %s\n", lathe_last_error());
      return nullptr;
    }
    engine = made.release();
  }
  return all.last = engine;
}

Engine* Engine::any() {
  {
    Engines& all = engines();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.last != nullptr) return all.last;
  }
  return of(all_processors());
}

bool Engine::open() {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.workers = threads_;
  options.parallel_for = Team::parallel_for;
  return lathe_context_create(&options, &context_) == LATHE_OK &&
         lathe_device_open(context_, "cpu", &device_) == LATHE_OK;
}

void Engine::warm_up() {
  const std::lock_guard<std::mutex> lock(warm_up_mutex_);
  const uint64_t changes = weight_changes() + attention_changes();
  if (changes == warmed_) return;
  const bool first = warmed_ == 0;
  warmed_ = changes;
  lathe_manifest* manifest = nullptr;
  if (lathe_manifest_create(&manifest) != LATHE_OK) return;
  int weights = 0;
  visit_weights([&](Weight& weight) { weights += add_weight(manifest, weight) ? 1 : 0; });
  ProgressLine line;
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.parallelism = all_processors();
  options.progress = ProgressLine::show, options.progress_user = &line;
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  if (lathe_warmup(device_, manifest, &options, &report) != LATHE_OK) {
    std::fprintf(stderr, "lathe: the warm-up is not complete: %s\n", lathe_last_error());
  }
  if (report.compiled > 0 || (first && report.loaded > 0)) {
    std::fprintf(stderr,
                 "%slathe: %d kernels for %d weights and %d threads are ready after %.1f s "
                 "(%d compiled, %d from the cache)\n",
                 line.terminal ? "\r" : "", static_cast<int>(report.classes), weights, threads_,
                 report.milliseconds / 1e3, static_cast<int>(report.compiled),
                 static_cast<int>(report.loaded));
  }
  lathe_manifest_destroy(manifest);
  visit_attention([this](const lathe_matmul_desc& desc) { is_ready(device_, desc, LATHE_MISS_BLOCK); });
}

bool Engine::prepare(const Product& product) {
  if (is_empty(product.desc)) return true;
  const bool wait = product.of_weight || product.desc.b.packed_layout != 0 || miss_policy() == Miss::kBlock;
  if (is_ready(device_, product.desc, wait ? LATHE_MISS_BLOCK : LATHE_MISS_ERROR)) return true;
  if (!wait) enqueue(product);
  return false;
}

bool Engine::prepare(const lathe_argmax_desc& desc) {
  if (desc.rows == 0) return true;
  lathe_plan* plan = nullptr;
  const bool ready = lathe_plan_argmax(device_, &desc, &plan) == LATHE_OK;
  lathe_plan_destroy(plan);
  return ready;
}

bool Engine::prepare(const Attention& attention) {
  Product scores, sums;
  scores.desc = attention.scores, sums.desc = attention.sums;
  const bool ready = prepare(scores);
  return prepare(sums) && ready;
}

void Engine::prepare(const ggml_tensor* node, lathe_grouped_matmul_desc* desc) const {
  const bool wait = is_weight(node->src[0]) || miss_policy() == Miss::kBlock;
  desc->miss_policy = wait ? LATHE_MISS_BLOCK : LATHE_MISS_FALLBACK;
}

void Engine::enqueue(const Product& product) {
  const std::lock_guard<std::mutex> lock(queue_mutex_);
  if (!queued_.insert(text_of(product.desc)).second) return;
  queue_.push_back(product.desc);
  if (!background_.joinable() && !stopping_) {
    static const int registered = std::atexit(stop_all);
    (void)registered;
    background_ = std::thread([this] { compile_in_background(); });
  }
  queue_filled_.notify_one();
}

void Engine::stop_background() {
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    stopping_ = true;
  }
  queue_filled_.notify_one();
  if (background_.joinable()) background_.join();
}

void Engine::stop_all() {
  for (const auto& [threads, engine] : engines().by_threads) {
    if (engine != nullptr) engine->stop_background();
  }
}

void Engine::compile_in_background() {
  // The model's threads come first.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
  while (true) {
    lathe_matmul_desc desc;
    {
      std::unique_lock<std::mutex> lock(queue_mutex_);
      queue_filled_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      desc = queue_.front();
      queue_.pop_front();
    }
    if (is_ready(device_, desc, LATHE_MISS_BLOCK)) changes_.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace lathe_ggml
