/* Lathe: tuning. It measures the most promising candidates of a class on the device and records the winner.
 * lathe/lathe.h includes this file and states the rules that hold everywhere. docs/tuning.md in the source tree
 * explains when to use it.
 *
 * A tuning record belongs to a problem class on a device: the device's name, target and number of workers (on a GPU, of
 * compute units). It is stored in the cache directory beside the artifacts and copied into bundles and exports. It can
 * also be written to a file that every rank reads (lathe_context_options.tuning). On a miss, Lathe looks for a record
 * of the class first, and asks the oracle if there is none. If a record names a candidate that is no longer legal, a
 * warning is logged and the record is ignored. Classes that are already in a device's dispatch table keep their kernels
 * until the device is opened again.
 *
 * Above LATHE_DETERMINISM_FAST, tuning never changes a numeric recipe. For RUN_TO_RUN, it measures only candidates with
 * the recipe of the oracle's choice. BATCH_INVARIANT is not tuned, because all M buckets share one recipe. */
#ifndef LATHE_TUNE_H
#define LATHE_TUNE_H

#include "lathe/lathe.h"
#include "lathe/warmup.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lathe_tune_options {
  size_t struct_size;
  const lathe_chain* next;
  /* Candidates to measure per class, in the oracle's order, at most 4096; 0: 8. The first generated kernel, the first
   * with each ukernel and the first of each allowed external library are measured in any case. */
  uint32_t candidates;
  uint32_t reserved;
  uint64_t candidate_nanoseconds; /* time to measure one candidate; 0: 50 ms */
  /* Bytes of memory for copies of the operand that a model streams (B of matmul, X of argmax). Runs rotate over the
   * copies, so that no run finds its operand in a cache. At least one copy is used. 0: four times the last-level cache,
   * at most 1.5 GB. */
  uint64_t pool_bytes;
  /* Path of a file to which the records are added; records of other classes stay in it. NULL: no file. A relative path
   * starts at the directory that is current when the call is made. */
  const char* output;
  /* Called once per measured class, on the thread that also calls `run.progress`. `name` is the request, and the text
   * is its record as JSON:
   *   {"kind":"tuned", "class":{}, "target":{}, "device", "units", "codegen", "config":{}, "splits",
   *    "measured":[{"config":{}, "splits", "predicted_seconds", "measured_seconds"}...], ...}
   * "config" and "splits" are the winner's; "measured" is in the oracle's order. NULL: none. */
  lathe_text_fn text;
  void* text_user;
  /* Deadline, cancellation, progress and stop_on_failure, as in lathe_warmup. parallelism must be 0 or 1, because
   * measurements need the device to themselves. miss_policy must not be ERROR, because candidates are compiled. */
  lathe_warmup_options run;
} lathe_tune_options;
#define LATHE_TUNE_OPTIONS_INIT \
  { sizeof(lathe_tune_options), NULL, 0, 0, 0, 0, NULL, NULL, NULL, LATHE_WARMUP_OPTIONS_INIT }

/* classes = replaced + confirmed + refused + failed + skipped */
typedef struct lathe_tune_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t classes;
  uint64_t replaced;   /* a candidate other than the oracle's choice won */
  uint64_t confirmed;  /* no candidate beat the oracle's choice by more than the noise */
  uint64_t refused;    /* BATCH_INVARIANT: not measured */
  uint64_t failed;     /* the progress callback gets each reason; the call returns the first one */
  uint64_t skipped;    /* not begun or not finished, because of the deadline, the cancellation or stop_on_failure */
  uint64_t candidates; /* candidates measured, in all classes together */
  double milliseconds;
} lathe_tune_report;
#define LATHE_TUNE_REPORT_INIT \
  { sizeof(lathe_tune_report), NULL, 0, 0, 0, 0, 0, 0, 0, 0.0 }

/* Measures every class of the manifest, one after the other, at the largest M of its bucket (1024 for the open bucket;
 * argmax: 16 rows of the longest length, 131072 for the open bucket), but at no more than the entry's m_max. Candidates
 * take turns, so that clock drift affects all alike. A candidate replaces the oracle's choice if it is faster in three
 * quarters of the rounds and its median ratio is at least 2 % better. Each record is stored as soon as its class is
 * done. options and report may be NULL.
 * NOT_AVAILABLE: the device is only described, the directory of `output` cannot be written, or there is nowhere to put
 * the records (no cache directory, no `output` and no `text`). If a record cannot be stored later, its class fails, but
 * `text` still receives it. In all other cases the result is as in lathe_warmup. */
LATHE_API lathe_status lathe_tune(lathe_device* device, const lathe_manifest* manifest,
                                  const lathe_tune_options* options, lathe_tune_report* report);
/* Tune the class of one request, at the sizes of that request. `desc` is read as in lathe_plan_matmul: data pointers
 * are not used. INVALID_ARGUMENT: a lathe_tuning is chained, or the request needs no kernel. UNSUPPORTED: the request
 * is BATCH_INVARIANT. */
LATHE_API lathe_status lathe_tune_matmul(lathe_device* device, const lathe_matmul_desc* desc,
                                         const lathe_tune_options* options, lathe_tune_report* report);
LATHE_API lathe_status lathe_tune_argmax(lathe_device* device, const lathe_argmax_desc* desc,
                                         const lathe_tune_options* options, lathe_tune_report* report);
LATHE_API lathe_status lathe_tune_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                                const lathe_tune_options* options, lathe_tune_report* report);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_TUNE_H */
