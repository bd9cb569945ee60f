#include "product.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "class_table.h"
#include "engine.h"
#include "exception_flags.h"
#include "next_blas.h"
#include "prepare.h"
#include "report.h"

namespace lathe_blas {
namespace {

lathe_operand operand_of(const Matrix& matrix, lathe_dtype dtype, int64_t batch_stride) {
  lathe_operand operand = LATHE_OPERAND_INIT;
  operand.data = const_cast<void*>(matrix.data);
  operand.dtype = dtype;
  operand.layout = matrix.transposed ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  operand.leading_dimension = matrix.leading_dimension;
  operand.batch_stride = batch_stride;
  return operand;
}

lathe_matmul_desc descriptor_of(const Product& p) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = p.m;
  desc.n = p.n;
  desc.k = p.k;
  desc.batch = p.batch;
  desc.a = operand_of(p.a, p.dtype, p.a_stride);
  desc.b = operand_of(p.b, p.dtype, p.b_stride);
  desc.d = operand_of({p.d, p.ldd, false}, LATHE_F32, p.d_stride);
  if (p.beta != 0) desc.c = desc.d;
  desc.epilogue.alpha = p.alpha;
  desc.epilogue.beta = p.beta;
  return desc;
}

// A request that breaks one of Lathe's rules (operands that overlap) is legal in BLAS. Anything else is worth a line,
// once.
void note_failure(const Engine& engine, lathe_status status) {
  static std::atomic<bool> told{false};
  if (status == LATHE_INVALID_ARGUMENT || status == LATHE_UNSUPPORTED || told.exchange(true)) return;
  report("%s; this call goes to the next BLAS", engine.api->last_error());
}

// ---- Counts

std::atomic<uint64_t> counts[4];  // by Outcome

void clear_counts() {
  for (auto& count : counts) count = 0;
}
__attribute__((constructor)) void clear_counts_of_children() {
  pthread_atfork(nullptr, nullptr, clear_counts);
}

__attribute__((destructor)) void print_counts() {
  const auto of = [](Outcome outcome) { return counts[static_cast<int>(outcome)].load(); };
  const uint64_t next = of(Outcome::kSmall) + of(Outcome::kMiss) + of(Outcome::kRefused);
  if (of(Outcome::kLathe) + next == 0) return;
  report("pid %d: %" PRIu64 " products on Lathe, %" PRIu64 " on the next BLAS (%s): %" PRIu64
         " small, %" PRIu64 " not compiled, %" PRIu64 " refused",
         getpid(), of(Outcome::kLathe), next, name_of_next(), of(Outcome::kSmall), of(Outcome::kMiss),
         of(Outcome::kRefused));
}

lathe_status run(const Engine& engine, lathe_matmul_desc* desc, lathe_miss_policy policy) {
  desc->miss_policy = policy;
  return engine.api->matmul(engine.device, nullptr, desc);
}

// Runs the product if Lathe serves its class. LATHE_MISS: the next BLAS does. A class that comes again is compiled for
// later processes.
lathe_status run_if_chosen(const Engine& engine, const Product& product, lathe_matmul_desc* desc) {
  const uint64_t class_hash = class_of(product);
  int times = 0;
  const Server server = server_of(class_hash, &times);
  if (server == Server::kNext && times != 2) return LATHE_MISS;
  const lathe_status status = run(engine, desc, LATHE_MISS_ERROR);
  if (server == Server::kLathe || (status != LATHE_OK && status != LATHE_MISS)) return status;
  const KeepExceptionFlags keep_flags;
  if (server == Server::kNext) {
    if (status == LATHE_MISS) compile_in_background(engine, last_missed_entry());
    return status;
  }
  const bool has_kernel = status == LATHE_OK || load_kernel(engine, last_missed_entry());
  set_server(class_hash, has_kernel ? Server::kLathe : Server::kNext);
  return status == LATHE_MISS && has_kernel ? run(engine, desc, LATHE_MISS_ERROR) : status;
}

}  // namespace

void count(Outcome outcome) {
  if (settings().verbose) counts[static_cast<int>(outcome)].fetch_add(1, std::memory_order_relaxed);
}

bool run_product(const Product& product, Alternative alternative) {
  const Engine* const engine =
      lathe_blas::engine(alternative == Alternative::kNext ? IfOpening::kReturn : IfOpening::kWait);
  if (engine == nullptr) return false;
  lathe_matmul_desc desc = descriptor_of(product);
  lathe_status status;
  if (engine->on_miss == OnMiss::kNext && alternative == Alternative::kNext) {
    status = run_if_chosen(*engine, product, &desc);
    if (status == LATHE_MISS) {
      count(Outcome::kMiss);
      return false;
    }
  } else if (engine->on_miss == OnMiss::kFallback) {
    status = run(*engine, &desc, LATHE_MISS_FALLBACK);
  } else {
    status = run(*engine, &desc, LATHE_MISS_ERROR);
    if (status == LATHE_MISS) {
      const KeepExceptionFlags keep_flags;
      status = run(*engine, &desc, LATHE_MISS_BLOCK);
    }
  }
  if (status == LATHE_OK) {
    count(Outcome::kLathe);
    return true;
  }
  note_failure(*engine, status);
  count(Outcome::kRefused);
  return false;
}

}  // namespace lathe_blas
