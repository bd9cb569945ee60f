/* Lathe: kernels cut to a shape on first use, cached, launched.
 *
 * The public C API (C99). Conventions that hold for every declaration below:
 *
 *  - Every struct starts with its own size (`struct_size`) and a `next` chain. Start from the LATHE_*_INIT
 *    macros, which set the size and zero the rest. A size this library does not know is INVALID_ARGUMENT; an
 *    element of a chain with a `kind` it does not know is UNSUPPORTED. Nothing is ever silently ignored.
 *  - Functions return a lathe_status. On failure lathe_last_error() gives, for the calling thread, one line
 * that names the request and the cause. No call throws, aborts or exits the host process.
 *  - Handles are opaque. A device belongs to its context, a plan to its device: destroy in reverse order.
 *  - Sizes are in elements unless the name says bytes; times are in nanoseconds unless the name says
 * otherwise.
 *  - Threads: every function may be called from any thread at any time, except that destroying a handle must
 * not race with its use. Two calls on the same stream that both use the library's own workspace are ordered
 * by the stream on a GPU; on the CPU each call is synchronous and concurrent calls get separate slabs.
 *  - Processor state: on every thread, calls compute in the ABI's default floating-point environment (round to
 *    nearest, keep subnormal numbers, mask exceptions), whatever the thread has set. The caller's environment is
 *    restored when the call returns and while its parallel_for runs (in a call that a callback makes: the outermost
 *    caller's); other callbacks run in the default one. A call may raise exception flags. It may change the
 *    configuration of AMX tiles, as the ABI permits. The alignment-check flag must be clear: the C library requires it.
 *  - Stack, on the CPU: the first use of a class takes at most 18 KiB of the calling thread's stack, a later call
 *    at most 12 KiB. Compilation has a stack of its own.
 *  - The environment is read once, in lathe_context_create, for what lathe_context_options says.
 *  - Paths: a relative path is made absolute when it is given; those of options and of the environment are made
 *    absolute in lathe_context_create. The process may change its directory afterwards. NOT_AVAILABLE: a path is
 *    relative and there is no current directory; the message names the option. Files beside this library are
 *    found where the library was when it was loaded.
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
typedef void* lathe_stream; /* CUstream, hipStream_t; NULL on the CPU */

typedef enum lathe_log_level {
  LATHE_LOG_ERROR = 0,
  LATHE_LOG_WARNING = 1,
  LATHE_LOG_INFO = 2,
  LATHE_LOG_DEBUG = 3
} lathe_log_level;
/* Called from any thread, never with a lock of Lathe's held, never on the path of a dispatch hit. */
typedef void (*lathe_log_fn)(void* user, lathe_log_level level, const char* message);

/* Runs body(body_context, i) once for every i in [0, count), in any order, on any threads, and returns when
 * all have returned. `worker` is a slot in [0, workers): two bodies that run at once must be given different
 * slots. */
typedef void (*lathe_task_fn)(void* body_context, int64_t index, int32_t worker);
typedef void (*lathe_parallel_for_fn)(void* user, int64_t count, lathe_task_fn body, void* body_context);

/* Where kernels are compiled. */
typedef enum lathe_compiler_mode {
  LATHE_COMPILER_DEFAULT = 0, /* as $LATHE_COMPILER says ("inprocess" or "process"), else INPROCESS */
  LATHE_COMPILER_INPROCESS = 1, /* But what users wrote (payloads, ukernels, pipelines) is read as PROCESS says. */
  /* In programs of their own (lathe-compiler-process), started at the first miss, kept for a minute without work, at most
   * one a core: a crash, a hang, a fatal error and a lack of memory of the compiler are an error on the request that met
   * them (COMPILE_FAILED, TIMEOUT), and on that alone. The host's signals and files are left as they are; a host that
   * handles SIGCHLD sees processes that it has not started, and is best not to wait for them. */
  LATHE_COMPILER_PROCESS = 2
} lathe_compiler_mode;

typedef struct lathe_context_options {
  size_t struct_size;
  const lathe_chain* next;
  /* Cache directory; NULL: $LATHE_CACHE_DIR, else $XDG_CACHE_HOME/lathe, else $HOME/.cache/lathe; "": no
   * disk. */
  const char* cache_dir;
  /* Path of liblathe-compiler.so. A name without a '/' is searched for by dlopen. NULL:
   * $LATHE_COMPILER_LIBRARY, else the one beside this library. */
  const char* compiler_library;
  lathe_log_fn log; /* NULL: warnings and errors to stderr, or the level $LATHE_LOG names (error..debug) */
  void* log_user;
  lathe_log_level log_level; /* what reaches `log` */
  lathe_miss_policy miss_policy;
  /* CPU threads a call may use, the caller's included, at most 1024; 0: $LATHE_WORKERS, else one per core
   * this process may run on, or fewer if a CPU quota of its control group (cgroup version 1 or 2) or of a
   * group above it keeps fewer busy; quotas are rounded up (1.5 CPUs: 2). With parallel_for: the number of
   * worker slots, which must be given (1..1024, INVALID_ARGUMENT otherwise; $LATHE_WORKERS is not read). Part
   * of the policy the oracle sees. */
  int32_t workers;
  lathe_parallel_for_fn parallel_for; /* NULL: the context's own pool; otherwise `workers` >= 1 */
  void* parallel_for_user;
  /* 1: before each launch on a GPU, every pointer is looked up in the driver (about a microsecond each) and
   * host memory or another device's is INVALID_ARGUMENT, instead of a fault that loses the CUDA context. 0:
   * $LATHE_VALIDATE (0 or 1), else off. */
  int32_t validate;
  uint32_t reserved; /* must be 0 */
  /* Path of the generic kernels for LATHE_MISS_FALLBACK; NULL: $LATHE_FALLBACK_BUNDLE, else
   * lathe-fallback.bundle beside this library. Opened at the first miss that asks for it. */
  const char* fallback_bundle;
  /* What the entries of the cache directory may take, in bytes: before one is written, the least recently used
   * make room (down to 7/8 of it). 0: $LATHE_CACHE_BYTES ("500M", K, M, G and T of 1024; "unlimited"), else 4 GiB;
   * UINT64_MAX: no cap. Writers at once may pass it until the next one makes room, each by an entry or by a
   * sixteenth of what was free when it last looked. */
  uint64_t cache_bytes;
  /* Paths of bundles (lathe_bundle_write), looked up in this order after the cache directory, never written to. NULL:
   * those that $LATHE_BUNDLES names, separated by ':'. Each is opened at the first miss and stays open; one that is
   * missing or damaged is a warning and a miss. */
  const char* const* bundles;
  size_t bundle_count;
  /* Files; NULL: those that $LATHE_RECORD, $LATHE_METRICS and $LATHE_TRACE name, "": none. "%p" in the latter two is the
   * process' id. One that cannot be written is a warning. None costs a dispatch hit anything.
   * record: a manifest of the classes that this context's devices met, each added at its first miss; processes may share
   * it. What a warm-up prepared does not miss: record a run without one.
   * metrics: the statistics as Prometheus' text, written every five seconds by a thread of its own, and at the end.
   * trace: misses, compilations and loads in Chrome's trace format; processes may share it. */
  const char* record;
  const char* metrics;
  const char* trace;
  lathe_compiler_mode compiler;
  /* Seconds that compiling one kernel may take: how long a call waits for another process or machine that compiles what
   * it needs before it compiles too, and after which a compiler process, to which alone what follows matters, is TIMEOUT
   * (one at SCHED_IDLE that is not let run: ten times as many); 0: $LATHE_COMPILER_SECONDS, else 120. */
  uint32_t compiler_seconds;
  /* Address space of one process; 0: $LATHE_COMPILER_BYTES ("4G", "unlimited"), else 8 GiB; UINT64_MAX: no limit. */
  uint64_t compiler_bytes;
  /* Path of the program; NULL: $LATHE_COMPILER_PROGRAM, else lathe-compiler-process beside this library. */
  const char* compiler_program;
  /* A Redis server that machines share, "redis://[[user]:password@]host[:port][/database][/prefix]" (prefix "lathe"),
   * looked into after the bundles: a kernel is compiled once by all of them, each then keeping it in its own directory. NULL: $LATHE_REMOTE; "" or
   * unset: none. A server that is unreachable, slow or wrong is a warning and a miss, and costs a call at most 1.5 s,
   * once in 5 s and then ever less often. Whoever may write there decides what this
   * process executes: name no server outside a network that you trust. */
  const char* remote;
  /* What requests without a lathe_external do. DEFAULT: $LATHE_EXTERNAL, "off", "allow", "prefer" or "require", the latter
   * three also as "prefer:onednn" (LATHE_EXTERNAL_ONEDNN in lower case), else OFF: which libraries a machine has changes
   * no result unasked. */
  lathe_external_use external;
  lathe_external_library external_library;
  /* A file of tuning records (lathe_tune_options.output), which go before those of the cache directory and the bundles:
   * with the same file every rank takes the same plans, and lathe_device_fingerprint tells other files apart. NULL:
   * $LATHE_TUNING; "" or unset: none. A file that is missing or damaged is a warning and no record. */
  const char* tuning;
} lathe_context_options;
#define LATHE_CONTEXT_OPTIONS_INIT                                                                         \
  {                                                                                                        \
    sizeof(lathe_context_options), NULL, NULL, NULL, NULL, NULL, LATHE_LOG_WARNING, LATHE_MISS_DEFAULT, 0, \
        NULL, NULL, 0, 0, NULL, 0, NULL, 0, NULL, NULL, NULL, LATHE_COMPILER_DEFAULT, 0, 0, NULL, NULL,       \
        LATHE_EXTERNAL_DEFAULT, LATHE_EXTERNAL_ANY, NULL                                                   \
  }

/* options may be NULL. Costs microseconds: nothing is loaded, no thread started but for `metrics` and lathe_pipelines. */
LATHE_API lathe_status lathe_context_create(const lathe_context_options* options, lathe_context** context);
/* NULL is legal. All devices and plans of the context must be gone. */
LATHE_API void lathe_context_destroy(lathe_context* context);

/* Since the context was made. Every field but artifact_bytes and background_waiting only grows. */
typedef struct lathe_statistics {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t dispatch_hits;   /* calls served by the dispatch table (counted per device thread-shard) */
  uint64_t dispatch_misses; /* calls whose class the table did not hold, LATHE_MISS included */
  uint64_t memory_hits;     /* misses of the dispatch table served by an artifact in memory */
  uint64_t disk_hits;       /* ... by an artifact from disk */
  uint64_t compiles;        /* kernels compiled by this context */
  uint64_t compile_failures;
  uint64_t disk_rejects;       /* defective, foreign or mismatching cache files, each treated as a miss */
  double compile_milliseconds; /* wall time inside the compiler, its library's load aside */
  double compiler_load_milliseconds;
  double disk_load_milliseconds; /* reading and checking files */
  double link_milliseconds;      /* loading code onto a device */
  uint64_t artifact_bytes;       /* held in memory */
  uint64_t disk_bytes_read;
  uint64_t disk_bytes_written;
  uint64_t compiler_loaded; /* 1 once liblathe-compiler.so was mapped into this process */
  uint64_t
      fallback_runs; /* calls that ran on a generic kernel (LATHE_MISS_FALLBACK); each a dispatch miss too */
  uint64_t bundle_hits; /* misses of the dispatch table served by a bundle */
  uint64_t evictions; /* cache entries that this context removed to keep within cache_bytes */
  uint64_t kernel_loads;        /* of code onto a device; link_milliseconds is their time */
  uint64_t background_compiles; /* kernels made by the background thread (LATHE_MISS_FALLBACK) */
  uint64_t background_refused;  /* misses that found its queue full: they ran, and the next of their class asks again */
  uint64_t background_waiting;  /* classes in its queue now */
  uint64_t remote_hits; /* misses of the dispatch table served by the remote store */
  uint64_t remote_rejects; /* entries of the remote store that were refused, each treated as a miss */
} lathe_statistics;
#define LATHE_STATISTICS_INIT                                                                           \
  {                                                                                                     \
    sizeof(lathe_statistics), NULL, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0                                                                                      \
  }
LATHE_API lathe_status lathe_context_statistics(lathe_context* context, lathe_statistics* statistics);

/* A call whose class the device's table does not hold. */
typedef struct lathe_miss {
  size_t struct_size;
  const lathe_chain* next;
  const char* device;
  const char* problem;      /* "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1" */
  const char* entry;        /* the class as an entry of a manifest */
  lathe_miss_policy policy; /* what the call does now */
  uint32_t capturing;       /* 1: its stream is being captured, so that it answers CAPTURE_MISS whatever the policy */
} lathe_miss;
/* Called at every miss but a warm-up's, on the thread whose call missed, before that call goes on; with no lock of
 * Lathe's held, so that it may call anything but what closes the call's device. A miss of its own calls does not call it
 * again. Pointers are valid during the call. Calls on several threads may run at once. */
typedef void (*lathe_miss_fn)(void* user, const lathe_miss* miss);
/* What calls do from now on whose miss_policy is DEFAULT (ERROR after a warm-up: nothing compiles unseen), and who is
 * told of misses; callback NULL: nobody. policy DEFAULT: as the context was made. Calls under way may still follow what
 * was set before, and so may call the callback before. */
LATHE_API lathe_status lathe_context_set_miss(lathe_context* context, lathe_miss_policy policy,
                                              lathe_miss_fn callback, void* user);

/* Receives text piece by piece; called on the calling thread before the function returns. */
typedef void (*lathe_text_fn)(void* user, const char* name, const char* text, size_t size);

/* The statistics as Prometheus' text format; one call of `text`. */
LATHE_API lathe_status lathe_context_metrics(lathe_context* context, lathe_text_fn text, void* user);

/* The disk cache as a JSON object, every entry read and checked, the least recently used (which goes first when room is
 * made) first:
 *   {"directory", "cap_bytes":N or null, "bytes":N, "hits":N, "made":N, "rejected":N, "defects":[{"file","cause"}...],
 *    "entries":[{"file", "bytes", "format", "age_seconds", "hits", "made", "metadata":{...}, "key":{...}}...],
 *    "records":[{"file", "bytes", "age_seconds", "key":{...}, "record":{...}}...]}
 * records: of tuning (lathe/tune.h) and of plans, which say for a class what was compiled, so that a device whose
 * queried facts differ in a detail finds it. They are small, count for the cap, and for none of the other numbers.
 * hits: how often a process read the entry; made: how often one wrote it; those of all include removed entries. They
 * are approximate (a crash loses some). "metadata" is what the compiler noted ("compile_milliseconds", "stages").
 * NOT_AVAILABLE: the directory is refused (another user's, one that others may write) or cannot be read; so of the two
 * below, and where they cannot remove what is to go. Without a directory there is nothing: an empty list. */
LATHE_API lathe_status lathe_cache_list(lathe_context* context, lathe_text_fn text, void* user);
/* Removes every entry and record of the disk cache (and nothing else in the directory); *removed, the number of entries,
 * may be NULL. */
LATHE_API lathe_status lathe_cache_clear(lathe_context* context, uint64_t* removed);
/* Removes the least recently used entries until the rest takes no more than `bytes`, and what killed processes left.
 * *removed, the number of entries, may be NULL. */
LATHE_API lathe_status lathe_cache_prune(lathe_context* context, uint64_t bytes, uint64_t* removed);

/* ---- Bundles: many artifacts in one file that is only read */

typedef struct lathe_bundle_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t entries;        /* taken */
  uint64_t payloads;       /* distinct artifacts among them: equal ones are stored once */
  uint64_t duplicates;     /* were there already; the first stays */
  uint64_t defects;        /* refused as damaged, and left out */
  uint64_t bytes;          /* of the bundle's file; 0 of an import */
  uint64_t unpacked_bytes; /* of the artifacts */
  uint64_t records;        /* of tuning and plans, taken; counted in none of the above but bytes and defects */
} lathe_bundle_report;
#define LATHE_BUNDLE_REPORT_INIT \
  { sizeof(lathe_bundle_report), NULL, 0, 0, 0, 0, 0, 0, 0 }

/* Writes the bundle `path`, whole or not at all, of all that `source_count` cache directories and bundles hold: for any
 * number of targets, compressed, indexed. `target` NULL: everything; else what was made for it ("sm_90a", "x86-64").
 * A source that is neither: INVALID_ARGUMENT; a file that cannot be written: NOT_AVAILABLE. report may be NULL. */
LATHE_API lathe_status lathe_bundle_write(const char* path, const char* const* sources, size_t source_count,
                                          const char* target, lathe_bundle_report* report);
/* A bundle as JSON, every payload read and checked: {"path", "about":{...}, "bytes":N, "stored_bytes":N,
 * "unpacked_bytes":N, "rejected":N, "defects":[{"cause"}...], "entries":[{"stored_bytes", "bytes", "format",
 * "metadata":{...}, "key":{...}}...], "records":[{"stored_bytes", "bytes", "key":{...}, "record":{...}}...]}.
 * INVALID_ARGUMENT: it is no bundle, or its index is damaged. */
LATHE_API lathe_status lathe_bundle_list(const char* path, lathe_text_fn text, void* user);
/* Writes a bundle's artifacts into the cache directory, those that it has excepted. NOT_AVAILABLE: there is none that can
 * be written. report may be NULL. */
LATHE_API lathe_status lathe_cache_import(lathe_context* context, const char* path, lathe_bundle_report* report);

/* ---- Devices */

/* Every device name this build knows, available or not, as JSON: [{"name":"cpu","available":true,"reason":"",
 * "target":{...},"facts":{fact:{"value":...,"source":"..."}}}, ...]. The CPU also has a "machine": the processor
 * that Lathe recognized, and how (by model, by features, from defaults). Facts whose source begins with
 * "default: " are those of that processor. */
LATHE_API lathe_status lathe_devices(lathe_context* context, lathe_text_fn text, void* user);
/* "cpu", "cuda:0", "hip:0", ... NOT_AVAILABLE says why. Every device has a driver, a dispatch table and (CPU,
 * without a parallel_for) a pool of its own, whose threads start at the first launch that can use them. */
LATHE_API lathe_status lathe_device_open(lathe_context* context, const char* name, lathe_device** device);
/* A device that is only described: plans, explains, dumps and warms the cache for the facts file at
 * `facts_path`, and cannot run anything (NOT_AVAILABLE). `target` NULL takes the file's own target ("sm_90a",
 * "gfx942", "x86-64-avx512", ...). PTX for it is assembled by $LATHE_PTXAS, else the first ptxas on $PATH and
 * in $CUDA_HOME/bin
 * (/usr/local/cuda/bin) that knows the target, else libnvJitLink; without any, or with LATHE_PTXAS set but
 * empty, it is kept as PTX and the driver assembles it when the kernel is loaded. */
LATHE_API lathe_status lathe_device_describe(lathe_context* context, const char* facts_path,
                                             const char* target, lathe_device** device);
LATHE_API void lathe_device_close(lathe_device* device);
/* 64-bit fingerprint of facts, target, workers, oracle, codegen id and the file of tuning records: equal on ranks that
 * will run identical plans, if their cache directories and bundles hold the same records. */
LATHE_API lathe_status lathe_device_fingerprint(lathe_device* device, uint64_t* fingerprint);

/* ---- Device memory and streams */

/* For tools, tests and engines without an allocator of their own; an engine's own pointers and streams serve
 * as well. All of them need a device that runs (NOT_AVAILABLE on a described one) and may be called from any
 * thread, whichever CUDA context is current: it stays so. On a GPU an allocation and a release take
 * microseconds to milliseconds and may wait for the whole device; neither disturbs a stream that is being
 * captured. */

/* `bytes` of the device's memory, aligned to 64 bytes on the CPU and to 256 on a GPU, contents unspecified. 0
 * bytes: *memory is NULL. OUT_OF_MEMORY where there is no more. To be freed before the device closes. */
LATHE_API lathe_status lathe_device_alloc(lathe_device* device, size_t bytes, void** memory);
/* NULL is legal. Only for what lathe_device_alloc of this device gave, when no work that uses it is in
 * flight. */
LATHE_API lathe_status lathe_device_free(lathe_device* device, void* memory);

typedef enum lathe_copy_kind {
  LATHE_COPY_TO_DEVICE = 1, /* from host memory */
  LATHE_COPY_TO_HOST = 2,   /* from the device's memory */
  LATHE_COPY_ON_DEVICE = 3  /* from the device's memory to the device's memory */
} lathe_copy_kind;

/* Copies `bytes`, which must not overlap, after the stream's work so far and before what is given to it
 * later. On a GPU the call may return before the copy is done: `from` must stay as it is, and `to` unread,
 * until lathe_stream_synchronize. On the CPU, whose stream is NULL, the call returns when the copy is done,
 * and all memory is both host's and device's. */
LATHE_API lathe_status lathe_device_copy(lathe_device* device, lathe_stream stream, void* to,
                                         const void* from, size_t bytes, lathe_copy_kind kind);

/* A stream of the device's primary context that does not wait for the legacy default stream. On the CPU:
 * NULL. */
LATHE_API lathe_status lathe_stream_create(lathe_device* device, lathe_stream* stream);
/* Only for what lathe_stream_create gave. Returns at once; work in flight on the stream still completes. */
LATHE_API lathe_status lathe_stream_destroy(lathe_device* device, lathe_stream stream);
/* Blocks until all work given to the stream is done. A fault of a kernel shows here at the latest: INTERNAL.
 */
LATHE_API lathe_status lathe_stream_synchronize(lathe_device* device, lathe_stream stream);

/* ---- Running */

/* On the CPU the stream must be NULL and the call returns when the result is written. On a GPU all pointers
 * are the device's, the call returns when the work is in the stream, and a fault of the kernel shows later,
 * as a failure of whatever call on the context comes next ("the CUDA context is lost"). The work is done in
 * the stream's CUDA context; NULL and the other default streams mean those of the thread's current context if
 * that is of this device, else of its primary one. While the stream is being captured a request whose kernel
 * is loaded becomes part of the graph, and any other is CAPTURE_MISS. */
LATHE_API lathe_status lathe_matmul(lathe_device* device, lathe_stream stream, const lathe_matmul_desc* desc);
LATHE_API lathe_status lathe_argmax(lathe_device* device, lathe_stream stream, const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_matmul_argmax(lathe_device* device, lathe_stream stream,
                                           const lathe_matmul_argmax_desc* desc);

/* ---- Packed weights */

/* The layout in which this device's kernels would rather have the weight B of `desc` (its N, K, dtype and batch; data
 * pointers, M and the other operands' data are not read), one for every M, and the bytes it takes (a little more than
 * the weight). Ids carry a version: one that another release gave is INVALID_ARGUMENT where its layout is no longer
 * read, never a wrong result, so packed weights may be kept on disk beside their id. UNSUPPORTED where no packed layout
 * is read: on GPUs, and on the CPU for dtypes but f32, f16, bf16, i8 and where A has a zero_point. Both pointers are
 * needed. */
LATHE_API lathe_status lathe_packed_layout(lathe_device* device, const lathe_matmul_desc* desc, uint32_t* layout,
                                           size_t* bytes);
/* Packs B of `desc`, as its layout, leading dimension and batch stride say (a batch stride of 0: one matrix), into the
 * `bytes` at `packed`, which must be as many as lathe_packed_layout says, of any alignment, and must not overlap B. To
 * be used as B with this `layout` for packed_layout and a batch_stride of bytes / batch / size of an element, or of 0
 * where B's is 0. One thread reads and writes the weight once. */
LATHE_API lathe_status lathe_pack_weights(lathe_device* device, const lathe_matmul_desc* desc, uint32_t layout,
                                          void* packed, size_t bytes);

/* ---- Plans: chosen once, run many times */

/* Plans the request's problem class, compiles or loads its kernel (subject to the miss policy; a described
 * device only plans). Data pointers of `desc` are not read and may be NULL, but presence matters: a NULL
 * bias, residual or values means "none". The plan serves every request of the same class: the same everything
 * but pointers, leading dimensions, strides, batch, alpha, beta (zero or not is part of the class) and any M
 * of the bucket. Where the class is loaded already it costs a look-up and an allocation. */
LATHE_API lathe_status lathe_plan_matmul(lathe_device* device, const lathe_matmul_desc* desc,
                                         lathe_plan** plan);
LATHE_API lathe_status lathe_plan_argmax(lathe_device* device, const lathe_argmax_desc* desc,
                                         lathe_plan** plan);
LATHE_API lathe_status lathe_plan_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                                lathe_plan** plan);
LATHE_API void lathe_plan_destroy(lathe_plan* plan);

/* Bytes of workspace that running `plan` at its planned M and batch needs (0: none). */
LATHE_API lathe_status lathe_plan_workspace_bytes(lathe_plan* plan, size_t* bytes);
LATHE_API lathe_status lathe_plan_run_matmul(lathe_plan* plan, lathe_stream stream,
                                             const lathe_matmul_desc* desc);
LATHE_API lathe_status lathe_plan_run_argmax(lathe_plan* plan, lathe_stream stream,
                                             const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_plan_run_matmul_argmax(lathe_plan* plan, lathe_stream stream,
                                                    const lathe_matmul_argmax_desc* desc);

/* The plan as JSON: class, compile config, launch config, key, numeric recipe, facts used, predicted time,
 * and every other candidate with its prediction or the reason it was rejected:
 *   {"request", "device", "class":{}, "dims":{"m","n","k","batch"}, "target":{}, "facts":{}, "workers",
 * "codegen_id", "rank", "config":{},
 * "launch":{"wanted_splits","splits","k_chunk","workspace_bytes","scratch_bytes_per_worker"},
 *    "key":{"fingerprint","text"}, "numeric_recipe", "predicted_seconds", "legal",
 *    "external":{"use", "library", "found":[{"library", "version", "absent"}...]},
 *    "chosen_by", "candidates":[{"rank", "legal":bool, "config":{}, "splits", "predicted_seconds", "numeric_recipe"} or
 *                  {"rank", "legal":false, "config":{}, "splits", "rejection"}]}
 * Candidates that the class' tuning record measured have "measured_seconds" too. "chosen_by": "oracle", "request" (a
 * lathe_tuning), "tuning record", or "plan record" (its artifact was there, the oracle's choice's was not). "found" is
 * empty where external libraries are off: none is opened for this.
 * "legal" counts the legal candidates, which come first; "rank" (1 is the oracle's choice) is what
 * lathe_tuning.candidate takes. "launch" has "wanted_splits" alone on a described device. From "rank" to
 * "predicted_seconds" is absent when no kernel is needed (N is 0, or K is 0 on the CPU; a GPU plans that as K
 * = 1 over zeros). */
LATHE_API lathe_status lathe_plan_explain(lathe_plan* plan, lathe_text_fn text, void* user);
/* The same of a request without a plan: what would be chosen for its class, or what was where its kernel is loaded.
 * `desc` is read as lathe_plan_matmul reads it, but nothing is compiled, loaded or stored, whatever the miss policy.
 * "launch" has "wanted_splits" alone unless the kernel is loaded; "chosen_by" then also leaves plan records out, which a
 * call or a plan may follow. Costs a ranking of the class' candidates, about a millisecond. */
LATHE_API lathe_status lathe_explain_matmul(lathe_device* device, const lathe_matmul_desc* desc, lathe_text_fn text,
                                            void* user);
LATHE_API lathe_status lathe_explain_argmax(lathe_device* device, const lathe_argmax_desc* desc, lathe_text_fn text,
                                            void* user);
LATHE_API lathe_status lathe_explain_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                                   lathe_text_fn text, void* user);
/* Compiles the plan's kernel again and passes on the IR after each stage ("00-payload.mlir", ..., "llvm.ll",
 * "assembly.s" or "kernel.ptx"), the machine code's bytes ("kernel.o", "kernel.hsaco", or "kernel.cubin" for
 * a described device where an assembler is found), the launch recipe ("recipe.json") and how it was made:
 * milliseconds by stage, the assembler and what it said of registers and spills ("metadata.json").
 * pipeline_yaml NULL: the built-in pipeline; else a compiler process reads it and compiles, whichever way the context
 * does (lathe_compiler_mode). Nothing is cached. */
LATHE_API lathe_status lathe_plan_dump(lathe_plan* plan, const char* pipeline_yaml, lathe_text_fn text,
                                       void* user);

/* Reads a payload, a module of functions of linalg on tensors in MLIR's textual form, as a program of Lathe's ops; one call
 * of `text`, whose JSON src/compiler/inspect.h documents: values, and steps with what each operand's dimensions are to
 * it. `name`, the file's, is for locations. Elementwise consumers become epilogues, transpositions layouts.
 * INVALID_ARGUMENT: malformed; UNSUPPORTED: it asks for what Lathe has no op for; both name line and column. Any bytes up
 * to 1 MiB are safe: a lathe-compiler-process reads them, whichever way the context compiles. Where they end it (there are
 * texts that MLIR's parser dies of) that is COMPILE_FAILED, hang it TIMEOUT; without it NOT_AVAILABLE. Nothing is compiled. */
LATHE_API lathe_status lathe_payload_inspect(lathe_context* context, const char* name, const char* payload,
                                             size_t size, lathe_text_fn text, void* user);

/* Slices (CPU only): the caller's own threads run a plan without a parallel-for. For each phase in [0,
 * phases), every worker in [0, workers), workers in 1..1024, calls lathe_plan_run_*_slice once, with a
 * barrier of the caller's between phases. The descriptor must chain a lathe_workspace of at least
 * lathe_plan_slice_workspace_bytes(). */
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

#include "lathe/tune.h"

#include "lathe/elementwise.h"

#endif /* LATHE_LATHE_H */
