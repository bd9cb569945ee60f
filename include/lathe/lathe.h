/* Lathe: matrix kernels for inference engines, compiled for each shape on first use, cached and launched.
 *
 * This is the public C API (C99). These rules hold for every declaration below:
 *
 *  - Structs. Every struct starts with its own size (`struct_size`) and a `next` chain. Start from the LATHE_*_INIT
 *    macro, which sets the size and zeroes the rest. A size that this library does not know is INVALID_ARGUMENT; a
 *    chain element with an unknown `kind` is UNSUPPORTED. No field is silently ignored.
 *  - Errors. Functions return a lathe_status. After a failure, lathe_last_error() returns one line for the calling
 *    thread that names the request and the cause. No call throws, aborts or exits the host process.
 *  - Ownership. Handles are opaque. A device belongs to its context and a plan to its device: destroy them in reverse
 *    order. Strings and structs that you pass are copied or read during the call; they need not outlive it.
 *  - Units. Sizes are in elements unless the name says bytes. Times are in nanoseconds unless the name says otherwise.
 *  - Threads. Every function may be called from any thread at any time, but destroying a handle must not race with its
 *    use. On a GPU, calls on one stream share the library's workspace and are ordered by the stream. On the CPU a call
 *    is synchronous, and concurrent calls use separate workspaces.
 *  - Floating-point environment. Calls compute in the ABI's default environment (round to nearest, subnormals kept,
 *    exceptions masked), whatever the calling thread has set. The caller's environment is restored on return and while
 *    its parallel_for runs. If a callback calls Lathe, the environment restored there is the outermost caller's. Other
 *    callbacks run in the default environment. A call may raise exception flags and may change the AMX tile
 *    configuration, as the ABI permits. The alignment-check flag must be clear, as the C library requires.
 *  - Stack. On the CPU, the first use of a class takes at most 18 KiB of the calling thread's stack, a later call at
 *    most 12 KiB. Compilation runs on a stack of its own.
 *  - Environment variables are read once, in lathe_context_create, where lathe_context_options names them.
 *  - Paths. A relative path becomes absolute when it is given: paths in options and in the environment in
 *    lathe_context_create. The process may change its directory afterwards. A relative path without a current
 *    directory is NOT_AVAILABLE, and the message names the option. Files beside this library are searched for where
 *    the library was when it was loaded.
 *
 * docs/first-call.md in the source tree explains the API by examples, docs/environment.md lists the variables.
 */
#ifndef LATHE_LATHE_H
#define LATHE_LATHE_H

#include <stddef.h>
#include <stdint.h>

#include "lathe/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Context */

typedef struct lathe_context lathe_context;
typedef struct lathe_device lathe_device;
typedef struct lathe_plan lathe_plan;
typedef void* lathe_stream; /* CUstream or hipStream_t; NULL on the CPU */

typedef enum lathe_log_level {
  LATHE_LOG_ERROR = 0,
  LATHE_LOG_WARNING = 1,
  LATHE_LOG_INFO = 2,
  LATHE_LOG_DEBUG = 3
} lathe_log_level;
/* Receives one message. May be called from any thread. Lathe holds no lock during the call, and never logs when the
 * kernel of a request is already in the dispatch table. */
typedef void (*lathe_log_fn)(void* user, lathe_log_level level, const char* message);

/* Runs body(body_context, i, worker) once for every i in [0, count), in any order and on any threads, and returns when
 * all calls have returned. `worker` is a slot in [0, workers); two bodies that run at the same time must get different
 * slots. */
typedef void (*lathe_task_fn)(void* body_context, int64_t index, int32_t worker);
typedef void (*lathe_parallel_for_fn)(void* user, int64_t count, lathe_task_fn body, void* body_context);

/* Where kernels are compiled. */
typedef enum lathe_compiler_mode {
  LATHE_COMPILER_DEFAULT = 0, /* what $LATHE_COMPILER says ("inprocess" or "process"), else INPROCESS */
  /* In this process. User-written input (payloads, ukernels, pipelines) is still read by separate processes. */
  LATHE_COMPILER_INPROCESS = 1,
  /* In separate processes (lathe-compiler-process). Each starts at the first miss that needs it and ends after a minute
   * without work; there is at most one per core. A crash, a hang, a fatal error or lack of memory in the compiler fails
   * only the request it worked on (COMPILE_FAILED or TIMEOUT). The host's signal handlers and files are not changed.
   * A host that handles SIGCHLD sees child processes that it did not start; it should not wait for them. */
  LATHE_COMPILER_PROCESS = 2
} lathe_compiler_mode;

/* A field that is 0 or NULL takes its default: the environment variable that its comment names, else the value after
 * that. */
typedef struct lathe_context_options {
  size_t struct_size;
  const lathe_chain* next;
  /* Cache directory; "": no disk cache. NULL: $LATHE_CACHE_DIR, else $XDG_CACHE_HOME/lathe, else $HOME/.cache/lathe,
   * else no disk cache, with a warning. */
  const char* cache_dir;
  /* Path of liblathe-compiler.so. dlopen searches for a name without a '/'. NULL: $LATHE_COMPILER_LIBRARY, else the
   * file beside this library. */
  const char* compiler_library;
  lathe_log_fn log; /* NULL: to stderr, warnings and errors or the level that $LATHE_LOG names (error..debug) */
  void* log_user;
  lathe_log_level log_level; /* the most detailed level that reaches `log` */
  lathe_miss_policy miss_policy;
  /* Number of CPU threads that one call may use, including the caller's; at most 1024. 0: $LATHE_WORKERS, else one per
   * core that this process may run on, but no more than the CPU quota of its control group (cgroup version 1 or 2) or
   * of a parent group allows, rounded up (a quota of 1.5 CPUs gives 2). With a parallel_for this is the number of
   * worker slots: it must be in 1..1024 (else INVALID_ARGUMENT) and $LATHE_WORKERS is not read. The choice of kernels
   * depends on it. */
  int32_t workers;
  lathe_parallel_for_fn parallel_for; /* NULL: the device's own thread pool */
  void* parallel_for_user;
  /* 1: before each launch on a GPU, look up every pointer in the driver (about a microsecond each) and refuse host
   * memory and other devices' memory as INVALID_ARGUMENT. Without the check such a pointer is a fault that loses the
   * CUDA context. The routing of a grouped product is copied to the host and checked, too. 0: $LATHE_VALIDATE (0 or 1),
   * else off. */
  int32_t validate;
  uint32_t reserved; /* must be 0 */
  /* Path of the generic kernels for LATHE_MISS_FALLBACK; opened at the first miss that needs it. NULL:
   * $LATHE_FALLBACK_BUNDLE, else lathe-fallback.bundle beside this library. */
  const char* fallback_bundle;
  /* Limit for the entries in the cache directory, in bytes. If a new entry would exceed it, the least recently used
   * ones are removed until the rest fills at most 7/8 of it. 0: $LATHE_CACHE_BYTES ("500M"; K, M, G and T are powers of
   * 1024; "unlimited"), else 4 GiB. UINT64_MAX: no limit. Concurrent writers may exceed the limit until the next write,
   * each by one entry or by a sixteenth of the space that was free when it last looked. */
  uint64_t cache_bytes;
  /* Paths of bundles (lathe_bundle_write), searched in this order after the cache directory and never written. Each is
   * opened at the first miss and stays open. A missing or damaged bundle gives a warning and counts as a miss. NULL:
   * the paths in $LATHE_BUNDLES, separated by ':'. */
  const char* const* bundles;
  size_t bundle_count;
  /* Paths of three output files; "": none. NULL: $LATHE_RECORD, $LATHE_METRICS and $LATHE_TRACE. "%p" in the latter two
   * is replaced by the process id. A file that cannot be written gives a warning. None of them adds cost to a call
   * whose kernel is already loaded.
   * record: a manifest of the classes that missed on this context's devices, each added at its first miss. Processes
   * may share the file. Classes that a warm-up prepared do not miss, so record a run without a warm-up.
   * metrics: the statistics in Prometheus' text format, written by a thread every five seconds and at the end.
   * trace: misses, compilations and loads in Chrome's trace format. Processes may share the file. */
  const char* record;
  const char* metrics;
  const char* trace;
  lathe_compiler_mode compiler;
  /* Time limit in seconds for compiling one kernel; 0: $LATHE_COMPILER_SECONDS, else 120. A call waits this long for
   * another process or machine that compiles the same kernel, then compiles it itself. A compiler process that takes
   * longer is ended, and the request is TIMEOUT (for background work at idle priority: ten times as long). A
   * compilation in this process has no limit. */
  uint32_t compiler_seconds;
  /* Address space of one compiler process, in bytes. 0: $LATHE_COMPILER_BYTES ("4G", "unlimited"), else 8 GiB;
   * UINT64_MAX: no limit. */
  uint64_t compiler_bytes;
  /* Path of the compiler process' program. NULL: $LATHE_COMPILER_PROGRAM, else lathe-compiler-process beside this
   * library. */
  const char* compiler_program;
  /* URL of a Redis server that machines share, "redis://[[user]:password@]host[:port][/database][/prefix]" (default
   * prefix "lathe"); "": none. NULL: $LATHE_REMOTE, else none. It is searched after the bundles: one machine compiles a
   * kernel, and every machine keeps it in its own directory. An unreachable, slow or wrong server gives a warning and
   * counts as a miss. It delays a call by at most 1.5 s, at most once in 5 s and then ever less often.
   * Whoever can write to the server decides what code this process executes: name only a server in a network that you
   * trust. */
  const char* remote;
  /* Whether external libraries may serve requests without a lathe_external, and which. DEFAULT: $LATHE_EXTERNAL ("off",
   * "allow", "prefer" or "require"; the latter three also with a library, as in "prefer:onednn"), else OFF. So the
   * libraries that happen to be installed change no result unless you ask for them. */
  lathe_external_use external;
  lathe_external_library external_library;
  /* Path of a file of tuning records (lathe_tune_options.output); "": none. NULL: $LATHE_TUNING, else none. Its records
   * take precedence over those in the cache directory and in bundles. Ranks that share one file choose the same plans;
   * lathe_device_fingerprint differs if their files differ. A missing or damaged file gives a warning and no records.
   * */
  const char* tuning;
  /* Path of a calibration file, in which lathe_calibrate stores measured facts of machines; "": none. NULL:
   * $LATHE_CALIBRATION, else calibration.json in the cache directory. If it has an entry for this machine, the CPU
   * device uses the measured facts, and lathe_device_fingerprint includes them. A file without one is ignored;
   * lathe_devices says why. A damaged file, or a named one that is missing, gives a warning and is ignored. */
  const char* calibration;
} lathe_context_options;
#define LATHE_CONTEXT_OPTIONS_INIT                                                                         \
  {                                                                                                        \
    sizeof(lathe_context_options), NULL, NULL, NULL, NULL, NULL, LATHE_LOG_WARNING, LATHE_MISS_DEFAULT, 0, \
        NULL, NULL, 0, 0, NULL, 0, NULL, 0, NULL, NULL, NULL, LATHE_COMPILER_DEFAULT, 0, 0, NULL, NULL,       \
        LATHE_EXTERNAL_DEFAULT, LATHE_EXTERNAL_ANY, NULL, NULL                                             \
  }

/* Makes a context. options may be NULL: all defaults. Takes microseconds, and the time to read the tuning and
 * calibration files. Loads no kernel and no compiler; only `metrics` and a chained lathe_pipelines start a thread or a
 * process. INVALID_ARGUMENT names the option or variable that is wrong. */
LATHE_API lathe_status lathe_context_create(const lathe_context_options* options, lathe_context** context);
/* Close all devices and destroy all plans of the context first; while a device is open, the context is leaked and an
 * error is logged. NULL is allowed. */
LATHE_API void lathe_context_destroy(lathe_context* context);

/* Counters since the context was made. All only grow, except artifact_bytes and background_waiting. "Miss" below means
 * a miss of the dispatch table. */
typedef struct lathe_statistics {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t dispatch_hits;   /* calls whose class was in the dispatch table */
  uint64_t dispatch_misses; /* calls whose class was not; includes those that returned LATHE_MISS */
  uint64_t memory_hits;     /* misses served by an artifact in memory */
  uint64_t disk_hits;       /* misses served by an artifact from disk */
  uint64_t compiles;        /* kernels that this context compiled */
  uint64_t compile_failures;
  uint64_t disk_rejects;       /* defective, foreign or mismatching cache files, each treated as a miss */
  double compile_milliseconds; /* wall time in the compiler, without loading its library */
  double compiler_load_milliseconds;
  double disk_load_milliseconds; /* reading and checking files */
  double link_milliseconds;      /* loading code onto a device */
  uint64_t artifact_bytes;       /* artifacts held in memory now */
  uint64_t disk_bytes_read;
  uint64_t disk_bytes_written;
  uint64_t compiler_loaded; /* 1 once liblathe-compiler.so was mapped into this process */
  uint64_t
      fallback_runs; /* calls that ran on a generic kernel (LATHE_MISS_FALLBACK); each is a dispatch miss too */
  uint64_t bundle_hits; /* misses served by a bundle */
  uint64_t evictions; /* cache entries that this context removed to stay within cache_bytes */
  uint64_t kernel_loads;        /* times that code was loaded onto a device; link_milliseconds is their time */
  uint64_t background_compiles; /* kernels that the background thread compiled (LATHE_MISS_FALLBACK) */
  uint64_t background_refused;  /* misses that found its queue full: the call ran, the next call of the class retries */
  uint64_t background_waiting;  /* classes in its queue now */
  uint64_t remote_hits; /* misses served by the remote store */
  uint64_t remote_rejects; /* entries of the remote store that were refused, each treated as a miss */
} lathe_statistics;
#define LATHE_STATISTICS_INIT                                                                           \
  {                                                                                                     \
    sizeof(lathe_statistics), NULL, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0                                                                                      \
  }
LATHE_API lathe_status lathe_context_statistics(lathe_context* context, lathe_statistics* statistics);

/* Describes a miss: a call whose class is not in the device's dispatch table. */
typedef struct lathe_miss {
  size_t struct_size;
  const lathe_chain* next;
  const char* device;
  const char* problem;      /* "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1" */
  const char* entry;        /* the class as one entry of a manifest (JSON) */
  lathe_miss_policy policy; /* the policy that the call follows */
  uint32_t capturing;       /* 1: the stream is being captured, so the call returns CAPTURE_MISS under every policy */
} lathe_miss;
/* Called for every miss except those of a warm-up, on the thread whose call missed, before that call continues. Lathe
 * holds no lock meanwhile: the callback may call any function except one that closes the call's device. A miss inside
 * the callback does not call it again. Calls may come from several threads at once. Pointers are valid only during the
 * call. */
typedef void (*lathe_miss_fn)(void* user, const lathe_miss* miss);
/* From now on, calls whose miss_policy is DEFAULT follow `policy`, and `callback` is told of each miss. policy DEFAULT:
 * the policy in the context's options. callback NULL: none. Calls that have already begun may still use the previous
 * policy and callback. After a warm-up, set ERROR to be sure that no call compiles. */
LATHE_API lathe_status lathe_context_set_miss(lathe_context* context, lathe_miss_policy policy,
                                              lathe_miss_fn callback, void* user);

/* Receives text, in one piece or several. Called on the calling thread before the function returns. `text` is `size`
 * bytes long and valid only during the call. */
typedef void (*lathe_text_fn)(void* user, const char* name, const char* text, size_t size);

/* Passes the statistics to `text` in Prometheus' text format, in one call. */
LATHE_API lathe_status lathe_context_metrics(lathe_context* context, lathe_text_fn text, void* user);

/* Lists the disk cache as one JSON object. Reads and checks every entry. Entries come in the order in which they would
 * be evicted, the least recently used first:
 *   {"directory", "cap_bytes":N or null, "bytes":N, "hits":N, "made":N, "rejected":N, "defects":[{"file","cause"}...],
 *    "entries":[{"file", "bytes", "format", "age_seconds", "hits", "made", "metadata":{...}, "key":{...}}...],
 *    "records":[{"file", "bytes", "age_seconds", "key":{...}, "record":{...}}...]}
 * hits: how often a process read the entry. made: how often a process wrote it. The totals include removed entries.
 * These counts are approximate, because a crash loses some. metadata: what the compiler noted ("compile_milliseconds",
 * "stages"). records: tuning records (lathe/tune.h) and plan records. A plan record says which kernel was compiled for
 * a class, so that a device whose facts differ slightly still finds it. Records count toward the limit, but in no other
 * number here. Without a cache directory the lists are empty. NOT_AVAILABLE, here and in the next two functions: the
 * directory belongs to another user, others can write to it, it cannot be read, or a file in it cannot be removed. */
LATHE_API lathe_status lathe_cache_list(lathe_context* context, lathe_text_fn text, void* user);
/* Removes every entry and record of the disk cache, and no other file. Stores the number of removed entries in
 * *removed, which may be NULL. */
LATHE_API lathe_status lathe_cache_clear(lathe_context* context, uint64_t* removed);
/* Removes the least recently used entries until the rest takes at most `bytes`. Also removes the temporary files of
 * processes that were killed. Stores the number of removed entries in *removed, which may be NULL. */
LATHE_API lathe_status lathe_cache_prune(lathe_context* context, uint64_t bytes, uint64_t* removed);

/* ---- Bundles: many artifacts in one read-only file */

typedef struct lathe_bundle_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t entries;        /* artifacts written */
  uint64_t payloads;       /* distinct artifacts among them; equal ones are stored once */
  uint64_t duplicates;     /* entries that were there already; the first one stays */
  uint64_t defects;        /* damaged entries, left out */
  uint64_t bytes;          /* size of the bundle file; 0 for an import */
  uint64_t unpacked_bytes; /* total size of the artifacts */
  uint64_t records;        /* tuning and plan records written; only `bytes` and `defects` include them too */
} lathe_bundle_report;
#define LATHE_BUNDLE_REPORT_INIT \
  { sizeof(lathe_bundle_report), NULL, 0, 0, 0, 0, 0, 0, 0 }

/* Writes everything in `source_count` cache directories and bundles to the bundle `path`, for any number of targets,
 * compressed and indexed. Either the whole file appears or none. `target` NULL: everything; else only the entries made
 * for that target ("sm_90a", "x86-64"). report may be NULL. INVALID_ARGUMENT: a source is neither a cache directory nor
 * a bundle. NOT_AVAILABLE: the file cannot be written. */
LATHE_API lathe_status lathe_bundle_write(const char* path, const char* const* sources, size_t source_count,
                                          const char* target, lathe_bundle_report* report);
/* Lists a bundle as one JSON object. Reads and checks every payload:
 *   {"path", "about":{...}, "bytes":N, "stored_bytes":N, "unpacked_bytes":N, "rejected":N, "defects":[{"cause"}...],
 *    "entries":[{"stored_bytes", "bytes", "format", "metadata":{...}, "key":{...}}...],
 *    "records":[{"stored_bytes", "bytes", "key":{...}, "record":{...}}...]}
 * INVALID_ARGUMENT: the file is not a bundle, or its index is damaged. */
LATHE_API lathe_status lathe_bundle_list(const char* path, lathe_text_fn text, void* user);
/* Copies a bundle's artifacts into the cache directory, except those that are already there. report may be NULL.
 * NOT_AVAILABLE: there is no cache directory that can be written. */
LATHE_API lathe_status lathe_cache_import(lathe_context* context, const char* path, lathe_bundle_report* report);

/* ---- Devices */

/* Lists every device name that this build knows, available or not, as JSON:
 *   [{"name":"cpu","available":true,"reason":"","target":{...},
 *     "facts":{fact:{"value":...,"source":"..."}}}, ...]
 * The CPU also has a "machine": the processor that Lathe recognized, and how (by model, by features or by default). Its
 * facts have an "origin": "measured" (by lathe_calibrate), "table" (taken from that processor's row) or "system". If
 * there is a calibration file, "calibration" says whether it is used, or why not. */
LATHE_API lathe_status lathe_devices(lathe_context* context, lathe_text_fn text, void* user);
/* Opens "cpu", "cuda:0", "hip:0" and so on. Each open device has its own driver, dispatch table and, on the CPU without
 * a parallel_for, thread pool, whose threads start at the first launch that can use them. NOT_AVAILABLE: the message
 * says what is missing. */
LATHE_API lathe_status lathe_device_open(lathe_context* context, const char* name, lathe_device** device);
/* Opens a device that is only described by the facts file at `facts_path`: it can plan, explain, dump and fill the
 * cache, but not run (NOT_AVAILABLE). `target` NULL: the target in the file ("sm_90a", "gfx942", "x86-64-avx512", ...).
 * PTX for the device is assembled by $LATHE_PTXAS. Without that variable, Lathe takes the first ptxas on $PATH or in
 * $CUDA_HOME/bin (/usr/local/cuda/bin) that knows the target, then libnvJitLink. If none is found, or if LATHE_PTXAS is
 * set but empty, the cache keeps PTX, and the driver assembles it when the kernel is loaded. */
LATHE_API lathe_status lathe_device_describe(lathe_context* context, const char* facts_path,
                                             const char* target, lathe_device** device);
/* Destroy the device's plans and free its memory and streams first. Waits for background compilation that has begun.
 * NULL is allowed. */
LATHE_API void lathe_device_close(lathe_device* device);
/* Stores a 64-bit hash of the device's facts, target, workers, oracle, codegen id and tuning file. Ranks with equal
 * fingerprints choose identical plans, if their cache directories and bundles hold the same records. */
LATHE_API lathe_status lathe_device_fingerprint(lathe_device* device, uint64_t* fingerprint);

/* ---- Device memory and streams */

/* For tools, tests and engines without an allocator; all other functions take any pointer and stream of the device.
 * These functions need a device that can run (NOT_AVAILABLE on a described one). They may be called from any thread and
 * leave its current CUDA context unchanged. On a GPU, allocating and freeing take microseconds to milliseconds and may
 * wait for the whole device. They do not disturb a stream that is being captured. */

/* Allocates `bytes` of device memory, aligned to 64 bytes on the CPU and 256 on a GPU, with unspecified contents. 0
 * bytes: *memory is NULL. Free it with lathe_device_free before the device closes. OUT_OF_MEMORY: none is left. */
LATHE_API lathe_status lathe_device_alloc(lathe_device* device, size_t bytes, void** memory);
/* Frees memory from lathe_device_alloc of the same device. No work that uses it may be in flight. NULL is allowed. */
LATHE_API lathe_status lathe_device_free(lathe_device* device, void* memory);

typedef enum lathe_copy_kind {
  LATHE_COPY_TO_DEVICE = 1, /* from host memory to device memory */
  LATHE_COPY_TO_HOST = 2,   /* from device memory to host memory */
  LATHE_COPY_ON_DEVICE = 3  /* within device memory */
} lathe_copy_kind;

/* Copies `bytes` from `from` to `to`, which must not overlap, in stream order. On a GPU the call may return before the
 * copy is done: do not change `from` or read `to` before lathe_stream_synchronize returns. On the CPU the stream is
 * NULL, the call returns when the copy is done, and all memory is both host and device memory. */
LATHE_API lathe_status lathe_device_copy(lathe_device* device, lathe_stream stream, void* to,
                                         const void* from, size_t bytes, lathe_copy_kind kind);

/* Makes a stream of the device's primary context that does not synchronize with the legacy default stream. On the CPU:
 * NULL. Destroy it before the device closes. */
LATHE_API lathe_status lathe_stream_create(lathe_device* device, lathe_stream* stream);
/* Destroys a stream from lathe_stream_create. Returns at once; work already in the stream completes. */
LATHE_API lathe_status lathe_stream_destroy(lathe_device* device, lathe_stream stream);
/* Blocks until all work in the stream is done. A kernel fault shows here at the latest, as INTERNAL. */
LATHE_API lathe_status lathe_stream_synchronize(lathe_device* device, lathe_stream stream);

/* ---- Running */

/* Run one op now; lathe/types.h states shapes and dtypes. If the request's class is not in the dispatch table, the miss
 * policy decides: compile, run a generic kernel, or fail.
 *
 * CPU: the stream must be NULL, and the call returns when the result is written.
 * GPU: all pointers are device pointers. The call returns when the work is in the stream. A kernel fault shows later,
 * as INTERNAL from whichever call comes next ("the CUDA context is lost"). The work runs in the stream's CUDA context.
 * NULL and the other default streams use the thread's current context if it belongs to this device, else the primary
 * context. While the stream is being captured, a request whose kernel is loaded becomes part of the graph, and any
 * other request is CAPTURE_MISS. docs/gpu-streams-and-graphs.md has more. */
LATHE_API lathe_status lathe_matmul(lathe_device* device, lathe_stream stream, const lathe_matmul_desc* desc);
LATHE_API lathe_status lathe_argmax(lathe_device* device, lathe_stream stream, const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_matmul_argmax(lathe_device* device, lathe_stream stream,
                                           const lathe_matmul_argmax_desc* desc);

/* ---- Packed weights */

/* Stores the id and the size in bytes of the packed layout that this device's kernels prefer for the weight B of
 * `desc`. One layout serves every M; it is slightly larger than the weight. Reads N, K, dtypes and batch, not M or
 * data. The id holds a version, so packed weights may be kept on disk beside their id: a release that no longer reads
 * the layout refuses the id as INVALID_ARGUMENT. UNSUPPORTED: dtypes other than f32, f16, bf16, i8, block formats of
 * GGUF files and U4_AWQ, U4_GPTQ and U4_GPTQ_V2; on GPUs all but the last three; if A has a zero_point. Block formats
 * need math INT8, a ROW_MAJOR A, no BATCH_INVARIANT and a processor with AVX2. Neither pointer may be NULL.
 * docs/quantised-weights.md says when packing pays. */
LATHE_API lathe_status lathe_packed_layout(lathe_device* device, const lathe_matmul_desc* desc, uint32_t* layout,
                                           size_t* bytes);
/* Packs B of `desc` into `packed`. `bytes` must be the size from lathe_packed_layout. `packed` may have any alignment
 * and must not overlap B or its scales and zero points; all are in host memory. B is read as its layout and distances
 * say; a batch stride of 0 means one matrix. One thread reads and writes the weight once. To use the result, set b.data
 * to `packed` (GPUs: to a copy), b.packed_layout to `layout`, b.leading_dimension to 0, and b.batch_stride to the
 * elements of a packed matrix, bytes / batch / element size (blocks: / bytes of one * its elements), or 0 if it was 0.
 * U4_AWQ, U4_GPTQ and U4_GPTQ_V2: B is ROW_MAJOR, its leading dimension 0 or N; K is a multiple of 128 and N one of 8.
 * The result is a weight of U4_128: set b.dtype to that too, and b.scale and b.zero_point to NULL. */
LATHE_API lathe_status lathe_pack_weights(lathe_device* device, const lathe_matmul_desc* desc, uint32_t layout,
                                          void* packed, size_t bytes);

/* ---- Plans: chosen once, run many times */

/* Make a plan for the class of `desc`: compile or load its kernel, as the miss policy allows. A described device only
 * plans. Data pointers are not read and may be NULL, but presence matters: a NULL bias, residual or values means
 * "none". The plan serves every request of the same class. Such requests may differ in pointers, leading dimensions,
 * strides, batch, alpha, beta (but not between zero and nonzero) and in M within the bucket. Running a request of
 * another class is INVALID_ARGUMENT and names the field. If the class is loaded already, this costs a lookup and an
 * allocation. Destroy the plan before its device closes. */
LATHE_API lathe_status lathe_plan_matmul(lathe_device* device, const lathe_matmul_desc* desc,
                                         lathe_plan** plan);
LATHE_API lathe_status lathe_plan_argmax(lathe_device* device, const lathe_argmax_desc* desc,
                                         lathe_plan** plan);
LATHE_API lathe_status lathe_plan_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                                lathe_plan** plan);
/* NULL is allowed. */
LATHE_API void lathe_plan_destroy(lathe_plan* plan);

/* Stores the bytes of workspace that the plan needs at the M and batch it was made with. 0: none, or the product has
 * block scales and does not use a lathe_workspace. */
LATHE_API lathe_status lathe_plan_workspace_bytes(lathe_plan* plan, size_t* bytes);
/* Run a request of the plan's class, like lathe_matmul and its siblings. */
LATHE_API lathe_status lathe_plan_run_matmul(lathe_plan* plan, lathe_stream stream,
                                             const lathe_matmul_desc* desc);
LATHE_API lathe_status lathe_plan_run_argmax(lathe_plan* plan, lathe_stream stream,
                                             const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_plan_run_matmul_argmax(lathe_plan* plan, lathe_stream stream,
                                                    const lathe_matmul_argmax_desc* desc);

/* Passes the plan as one JSON object: what was chosen, and every other candidate with its prediction or the reason for
 * its rejection.
 *   {"request", "device", "class":{}, "dims":{"m","n","k","batch"}, "target":{}, "facts":{}, "workers", "codegen_id",
 *    "rank", "config":{}, "fields":[{"name", "value", "meaning"}...],
 *    "launch":{"wanted_splits","splits","k_chunk","workspace_bytes","scratch_bytes_per_worker"},
 *    "key":{"fingerprint","text"}, "numeric_recipe", "predicted_seconds", "legal",
 *    "external":{"use", "library", "found":[{"library", "version", "absent"}...]}, "chosen_by",
 *    "candidates":[{"rank", "legal":true, "config":{}, "splits", "predicted_seconds", "numeric_recipe"} or
 *                  {"rank", "legal":false, "config":{}, "splits", "rejection"}]}
 * rank: the number that lathe_tuning.candidate takes; 1 is the oracle's choice. legal: how many candidates are legal;
 * they come first. fields: the numbers of "config" that the chosen kernel uses. chosen_by: "oracle", "request" (a
 * lathe_tuning), "tuning record", or "plan record" (its kernel was in the cache, the oracle's choice was not). found:
 * empty if external libraries are off, because none is opened then. launch: only "wanted_splits" on a described device.
 * Candidates that a tuning record measured also have "measured_seconds". If no kernel is needed (N is 0, or K is 0 on
 * the CPU), "candidates" is empty, and these fields are absent: "rank" to "predicted_seconds", "external" and
 * "chosen_by". A GPU plans K = 0 as K = 1 over zeros. */
LATHE_API lathe_status lathe_plan_explain(lathe_plan* plan, lathe_text_fn text, void* user);
/* The same for a request without a plan: the choice that its class would get or, if its kernel is loaded, has got.
 * `desc` is read as in lathe_plan_matmul. Nothing is compiled, loaded or stored under any miss policy. If the kernel is
 * not loaded, "launch" has only "wanted_splits", and plan records are not considered, although a call may follow one.
 * Ranks the candidates of the class, which takes about a millisecond. */
LATHE_API lathe_status lathe_explain_matmul(lathe_device* device, const lathe_matmul_desc* desc, lathe_text_fn text,
                                            void* user);
LATHE_API lathe_status lathe_explain_argmax(lathe_device* device, const lathe_argmax_desc* desc, lathe_text_fn text,
                                            void* user);
LATHE_API lathe_status lathe_explain_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                                   lathe_text_fn text, void* user);
/* Compiles the plan's kernel again and passes the result of each stage to `text`: the IR ("00-payload.mlir", ...,
 * "llvm.ll"), "assembly.s" or "kernel.ptx", the machine code ("kernel.o", "kernel.hsaco", or "kernel.cubin" for a
 * described device with an assembler), the launch recipe ("recipe.json"), and how it was made ("metadata.json":
 * milliseconds per stage, the assembler, its report on registers and spills). pipeline_yaml NULL: the built-in
 * pipeline; any other is read and compiled by a compiler process, whatever the context's lathe_compiler_mode. Caches
 * nothing. */
LATHE_API lathe_status lathe_plan_dump(lathe_plan* plan, const char* pipeline_yaml, lathe_text_fn text,
                                       void* user);

/* Reads a payload, a module of functions of linalg on tensors in MLIR's textual form, as a program of Lathe's ops.
 * Passes one JSON object to `text`, which src/compiler/inspect.h documents: values, and steps that say what each
 * dimension of each operand is. Elementwise consumers become epilogues; transpositions become layouts. Nothing is
 * compiled. `name`, usually the file's, is used in locations. Any input up to 1 MiB is safe, because a compiler process
 * reads it, whatever the context's lathe_compiler_mode says.
 * INVALID_ARGUMENT: malformed text. UNSUPPORTED: an operation that Lathe has no op for. Both name line and column.
 * COMPILE_FAILED: the text crashed MLIR's parser. TIMEOUT: the parser hung. NOT_AVAILABLE: there is no compiler
 * process. docs/mlir-payloads.md lists what can be read. */
LATHE_API lathe_status lathe_payload_inspect(lathe_context* context, const char* name, const char* payload,
                                             size_t size, lathe_text_fn text, void* user);

/* Slices (CPU only): the caller's own threads run a plan, without a parallel_for. For each phase in [0, phases), every
 * worker in [0, workers) calls lathe_plan_run_*_slice once; workers is in 1..1024. The caller puts a barrier between
 * phases. The descriptor must chain a lathe_workspace of at least lathe_plan_slice_workspace_bytes() bytes.
 * docs/cpu-threads.md has an example. */
LATHE_API lathe_status lathe_plan_phases(lathe_plan* plan, int32_t* phases);
LATHE_API lathe_status lathe_plan_slice_workspace_bytes(lathe_plan* plan, int32_t workers, size_t* bytes);
LATHE_API lathe_status lathe_plan_run_matmul_slice(lathe_plan* plan, const lathe_matmul_desc* desc,
                                                   int32_t phase, int32_t worker, int32_t workers);
LATHE_API lathe_status lathe_plan_run_argmax_slice(lathe_plan* plan, const lathe_argmax_desc* desc,
                                                   int32_t phase, int32_t worker, int32_t workers);
LATHE_API lathe_status lathe_plan_run_matmul_argmax_slice(lathe_plan* plan,
                                                          const lathe_matmul_argmax_desc* desc, int32_t phase,
                                                          int32_t worker, int32_t workers);

#ifdef __cplusplus
}
#endif

#include "lathe/warmup.h"

#include "lathe/calibrate.h"
#include "lathe/tune.h"

#include "lathe/elementwise.h"
#include "lathe/grouped.h"

#endif /* LATHE_LATHE_H */
