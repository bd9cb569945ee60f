/* Lathe: manifests, which list the problem classes that a process needs, and warming them up. Included by lathe/lathe.h,
 * which states the conventions. */
#include "lathe/lathe.h" /* ahead of the guard: it includes this file, and then what needs this one's types */

#ifndef LATHE_WARMUP_H
#define LATHE_WARMUP_H

#ifdef __cplusplus
extern "C" {
#endif

/* A list of problem classes: from a text (src/core/manifest.h shows one), from descriptors, or both. It knows no device.
 * A call that changes a manifest must not run beside another on the same manifest. */
typedef struct lathe_manifest lathe_manifest;

LATHE_API lathe_status lathe_manifest_create(lathe_manifest** manifest);
/* NULL is legal. */
LATHE_API void lathe_manifest_destroy(lathe_manifest* manifest);
/* Adds what the text lists and the manifest has not yet. INVALID_ARGUMENT names the line and column of what is no JSON,
 * or the entry and field of what is wrong; then nothing is added. Any bytes are safe. */
LATHE_API lathe_status lathe_manifest_parse(lathe_manifest* manifest, const char* text, size_t size);
/* Adds every class of the weight that `desc` describes (its N, K, dtypes, layouts, epilogue form; M is ignored, data
 * pointers are not read but a NULL bias, residual or values means "none") with M from 1 to m_max, every alignment
 * included. `name`, for progress and errors, may be NULL. A weight of no columns has no class. */
LATHE_API lathe_status lathe_manifest_add_matmul(lathe_manifest* manifest, const char* name,
                                                 const lathe_matmul_desc* desc, int64_t m_max);
/* Every row length and number of rows. */
LATHE_API lathe_status lathe_manifest_add_argmax(lathe_manifest* manifest, const char* name,
                                                 const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_manifest_add_matmul_argmax(lathe_manifest* manifest, const char* name,
                                                        const lathe_matmul_argmax_desc* desc, int64_t m_max);
/* A word on where it comes from, kept in its text. */
LATHE_API lathe_status lathe_manifest_note(lathe_manifest* manifest, const char* name, const char* value);
/* The text, which lathe_manifest_parse reads back. */
LATHE_API lathe_status lathe_manifest_text(const lathe_manifest* manifest, lathe_text_fn text, void* user);
/* The classes that lathe_warmup would prepare on this device, each once; one call of `text` each: its entry's name and
 * the class as JSON. */
LATHE_API lathe_status lathe_manifest_classes(lathe_device* device, const lathe_manifest* manifest,
                                              lathe_text_fn text, void* user);

/* One class that a warm-up is done with. */
typedef struct lathe_warmup_progress {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t done, total;
  double seconds;      /* since the warm-up began */
  const char* name;    /* the manifest entry's; "" where it has none */
  const char* problem; /* "matmul bf16 a=n b=t m=32 n=4096 k=4096 batch=1 on cpu": M is the bucket's end */
  lathe_status status; /* of this class */
  uint32_t reserved;
  const char* error; /* "" where it is ready */
} lathe_warmup_progress;
/* Called on the warm-up's threads, one call at a time; pointers are valid during the call. Not 0: end the warm-up. It may
 * call anything but what closes the device, and must not wait for another thread's warm-up. */
typedef int32_t (*lathe_progress_fn)(void* user, const lathe_warmup_progress* progress);

typedef struct lathe_warmup_options {
  size_t struct_size;
  const lathe_chain* next;
  int32_t parallelism;      /* threads, the caller's included, at most 1024; 0: the context's workers */
  uint32_t stop_on_failure; /* 1: begin no class after one that failed; 0: go on */
  uint64_t deadline_nanoseconds;  /* from the call on, after which no class is begun; 0: none */
  const volatile int32_t* cancel; /* once it is not 0 no class is begun: for signal handlers and other threads */
  lathe_progress_fn progress;
  void* progress_user;
  /* BLOCK (or DEFAULT): compile what is nowhere. ERROR: load what the cache and the bundles have, compile nothing; what
   * they have not fails with MISS. */
  lathe_miss_policy miss_policy;
  uint32_t reserved;
} lathe_warmup_options;
#define LATHE_WARMUP_OPTIONS_INIT \
  { sizeof(lathe_warmup_options), NULL, 0, 0, 0, NULL, NULL, NULL, LATHE_MISS_DEFAULT, 0 }

/* classes = compiled + loaded + present + failed + skipped */
typedef struct lathe_warmup_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t classes;  /* of the manifest on this device */
  uint64_t compiled; /* now */
  uint64_t loaded;   /* from memory, the cache directory or a bundle; on a described device: found there */
  uint64_t present;  /* in the device's table before */
  uint64_t failed;   /* the progress callback is told the reasons, the return value is the first's */
  uint64_t skipped;  /* not begun: deadline, cancellation, or stop_on_failure */
  double milliseconds;
} lathe_warmup_report;
#define LATHE_WARMUP_REPORT_INIT \
  { sizeof(lathe_warmup_report), NULL, 0, 0, 0, 0, 0, 0, 0.0 }

/* Prepares every class of the manifest, in its order, in parallel: afterwards no request of them misses, whatever the
 * policy. On a described device it fills the cache only. What is prepared stays, however the call ends: the first
 * failure's status; else CANCELLED; else TIMEOUT; what is under way then is ended first, so it may return later than the
 * deadline by one compilation. options and report may be NULL; the report is filled in every case but INVALID_ARGUMENT. */
LATHE_API lathe_status lathe_warmup(lathe_device* device, const lathe_manifest* manifest,
                                    const lathe_warmup_options* options, lathe_warmup_report* report);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_WARMUP_H */
