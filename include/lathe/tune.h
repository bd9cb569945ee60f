/* Lathe: tuning, which measures the oracle's first candidates on the device, of every kind, and keeps the winner.
 * Included by lathe/lathe.h, which states the conventions.
 *
 * What is measured becomes a record of the problem class on this device: its name, target, and workers (GPU: compute
 * units). It is kept in the cache directory beside the artifacts, travels in bundles and exports, and may be written
 * to a file that is handed to every rank (lathe_context_options.tuning). A miss of a dispatch table asks for its
 * class' record first, then plans as the oracle does. What a record names is taken only while it is a legal candidate
 * of the oracle's: one that is no longer is a warning and no record. Classes that a device's table holds already stay
 * as they are until the device is opened again.
 *
 * Above LATHE_DETERMINISM_FAST nothing that is kept changes a numeric recipe: RUN_TO_RUN has candidates of its first
 * candidate's recipe measured alone, and BATCH_INVARIANT, whose one recipe all buckets of M share, none at all. */
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
  /* Of a class, by the oracle's rank; 0: 8. The first of generated code, of each ukernel and of each external library
   * that may be used are measured too where they are not among them. */
  uint32_t candidates;
  uint32_t reserved;
  uint64_t candidate_nanoseconds; /* of measuring one; 0: 50 ms */
  /* Memory that the operand which a model reads from memory (a matmul's B, argmax' X) rotates over, so that no run finds
   * it in a cache; 0: four times the last level's, at most 1.5 GB. At least one such operand. */
  uint64_t pool_bytes;
  /* The records are added to this file; records of other classes stay in it. NULL: no file. A relative path starts at
   * the current directory of the call. */
  const char* output;
  /* One call a class that was measured; `name` is the request, the text its record as JSON: {"kind":"tuned", "class":{},
   * "target":{}, "device", "units", "codegen", "config":{}, "splits", "measured":[{"config":{}, "splits",
   * "predicted_seconds", "measured_seconds"}...], ...}, where "config" and "splits" are the winner's and the measured
   * ones are by the oracle's rank. On the tuning's thread, as `run.progress`. NULL: none. */
  lathe_text_fn text;
  void* text_user;
  /* Deadline, cancellation, progress, stop_on_failure, as of lathe_warmup. parallelism must be 0 or 1: what is measured
   * has the device to itself. miss_policy must not be ERROR: candidates are compiled. */
  lathe_warmup_options run;
} lathe_tune_options;
#define LATHE_TUNE_OPTIONS_INIT \
  { sizeof(lathe_tune_options), NULL, 0, 0, 0, 0, NULL, NULL, NULL, LATHE_WARMUP_OPTIONS_INIT }

/* classes = replaced + confirmed + refused + failed + skipped */
typedef struct lathe_tune_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t classes;
  uint64_t replaced;   /* another than the oracle's choice won */
  uint64_t confirmed;  /* none beats it by more than the noise */
  uint64_t refused;    /* BATCH_INVARIANT: not measured */
  uint64_t failed;     /* the progress callback is told the reasons, the return value is the first's */
  uint64_t skipped;    /* not begun or not ended: deadline, cancellation, or stop_on_failure */
  uint64_t candidates; /* measured, of all classes together */
  double milliseconds;
} lathe_tune_report;
#define LATHE_TUNE_REPORT_INIT \
  { sizeof(lathe_tune_report), NULL, 0, 0, 0, 0, 0, 0, 0, 0.0 }

/* Measures every class of the manifest, one after the other, each at the last M of its bucket (1024 where that is open;
 * argmax: 16 rows of the longest length, 131072 where that is open): candidates by turns, so that drift meets all alike,
 * each round's times compared with the oracle's choice's. A candidate takes its place where three quarters of the rounds
 * and 2 % of the median are in its favour. Records are kept as soon as their class is done. NOT_AVAILABLE: the device is
 * only described, the directory of `output` cannot be written, or neither a cache directory, `output` nor `text` would
 * have the records; what fails to be written later is the class' failure, and `text` has its record all the same. Else
 * as lathe_warmup answers. options and report may be NULL. */
LATHE_API lathe_status lathe_tune(lathe_device* device, const lathe_manifest* manifest,
                                  const lathe_tune_options* options, lathe_tune_report* report);
/* The class of one request, at its sizes; data pointers are not read, as lathe_plan_matmul has it. A chained
 * lathe_tuning is INVALID_ARGUMENT. BATCH_INVARIANT: UNSUPPORTED. */
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
