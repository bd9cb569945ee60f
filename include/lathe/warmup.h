/* Lathe: warming up. A manifest lists the problem classes that a process needs; a warm-up prepares their kernels.
 * lathe/lathe.h includes this file and states the rules that hold everywhere. docs/warm-up.md in the source tree
 * explains how to use it. */
#include "lathe/lathe.h" /* before the guard: lathe.h includes this file, then headers that need this file's types */

#ifndef LATHE_WARMUP_H
#define LATHE_WARMUP_H

#ifdef __cplusplus
extern "C" {
#endif

/* A list of problem classes, from a text (src/core/manifest.h describes it), from descriptors, or from both. It is
 * independent of devices. A call that changes a manifest must not run at the same time as another call on it. */
typedef struct lathe_manifest lathe_manifest;

LATHE_API lathe_status lathe_manifest_create(lathe_manifest** manifest);
/* NULL is allowed. */
LATHE_API void lathe_manifest_destroy(lathe_manifest* manifest);
/* Adds the entries of the text that the manifest does not have yet. Any input is safe. INVALID_ARGUMENT names the line
 * and column if the text is not JSON, else the entry and field that is wrong; then nothing is added. */
LATHE_API lathe_status lathe_manifest_parse(lathe_manifest* manifest, const char* text, size_t size);
/* Adds every class of the weight that `desc` describes, for every M from 1 to m_max and every alignment. Its N, K,
 * dtypes, layouts and epilogue form count; M is ignored. Data pointers are not read, but a NULL bias, residual or
 * values means "none". `name` appears in progress and errors and may be NULL. If N is 0, nothing is added. */
LATHE_API lathe_status lathe_manifest_add_matmul(lathe_manifest* manifest, const char* name,
                                                 const lathe_matmul_desc* desc, int64_t m_max);
/* The same for argmax: every row length and every number of rows. */
LATHE_API lathe_status lathe_manifest_add_argmax(lathe_manifest* manifest, const char* name,
                                                 const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_manifest_add_matmul_argmax(lathe_manifest* manifest, const char* name,
                                                        const lathe_matmul_argmax_desc* desc, int64_t m_max);
/* Stores a note on where the manifest comes from. It is kept in the manifest's text and has no effect. */
LATHE_API lathe_status lathe_manifest_note(lathe_manifest* manifest, const char* name, const char* value);
/* Passes the manifest's text, which lathe_manifest_parse reads back, to `text` in one call. */
LATHE_API lathe_status lathe_manifest_text(const lathe_manifest* manifest, lathe_text_fn text, void* user);
/* Lists the classes that lathe_warmup would prepare on this device, each once: one call of `text` per class, with the
 * name of its entry and the class as JSON. */
LATHE_API lathe_status lathe_manifest_classes(lathe_device* device, const lathe_manifest* manifest,
                                              lathe_text_fn text, void* user);

/* The progress of a warm-up after one class. */
typedef struct lathe_warmup_progress {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t done, total;
  double seconds;      /* since the warm-up began */
  const char* name;    /* the manifest entry's name, "" if it has none */
  const char* problem; /* "matmul bf16 a=n b=t m=32 n=4096 k=4096 batch=1 on cpu"; m is the largest M of the bucket */
  lathe_status status; /* of this class */
  uint32_t reserved;
  const char* error; /* "" if the class is ready */
} lathe_warmup_progress;
/* Called on the warm-up's threads, one call at a time. Pointers are valid only during the call. A result other than 0
 * ends the warm-up. It may call any function except one that closes the device, and must not wait for a warm-up on
 * another thread. */
typedef int32_t (*lathe_progress_fn)(void* user, const lathe_warmup_progress* progress);

typedef struct lathe_warmup_options {
  size_t struct_size;
  const lathe_chain* next;
  int32_t parallelism;      /* number of threads including the caller's, at most 1024; 0: the context's workers */
  uint32_t stop_on_failure; /* 1: begin no class after one has failed; 0: go on */
  uint64_t deadline_nanoseconds;  /* after this time from the call, no class is begun; 0: none */
  const volatile int32_t* cancel; /* no class is begun once it is nonzero; set by a signal handler or another thread */
  lathe_progress_fn progress;
  void* progress_user;
  /* BLOCK or DEFAULT: compile kernels that are in no cache or bundle. ERROR: compile nothing; a class whose kernel is
   * in none of them fails with MISS. */
  lathe_miss_policy miss_policy;
  uint32_t reserved;
} lathe_warmup_options;
#define LATHE_WARMUP_OPTIONS_INIT \
  { sizeof(lathe_warmup_options), NULL, 0, 0, 0, NULL, NULL, NULL, LATHE_MISS_DEFAULT, 0 }

/* classes = compiled + loaded + present + failed + skipped */
typedef struct lathe_warmup_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t classes;  /* classes of the manifest on this device */
  uint64_t compiled; /* compiled by this warm-up */
  uint64_t loaded;   /* taken from memory, the cache directory or a bundle; on a described device: found there */
  uint64_t present;  /* already in the device's table */
  uint64_t failed;   /* the progress callback gets each reason; the call returns the first one */
  uint64_t skipped;  /* not begun, because of the deadline, the cancellation or stop_on_failure */
  double milliseconds;
} lathe_warmup_report;
#define LATHE_WARMUP_REPORT_INIT \
  { sizeof(lathe_warmup_report), NULL, 0, 0, 0, 0, 0, 0, 0.0 }

/* Prepares every class of the manifest, in its order and in parallel. Afterwards no request of these classes misses,
 * whatever its policy. On a described device it only fills the cache. options and report may be NULL.
 * Returns the status of the first class that failed, else CANCELLED or TIMEOUT if it ended early. Classes that are
 * already prepared stay prepared. Compilations in progress are finished first, so the call may return later than the
 * deadline by one compilation. The report is filled in every case except INVALID_ARGUMENT. */
LATHE_API lathe_status lathe_warmup(lathe_device* device, const lathe_manifest* manifest,
                                    const lathe_warmup_options* options, lathe_warmup_report* report);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_WARMUP_H */
