/* Lathe: calibration. It measures the facts that the cost model needs of the CPU device, instead of taking them from a
 * table of processors. lathe/lathe.h includes this file and states the rules that hold everywhere. docs/calibration.md
 * in the source tree explains when to use it.
 *
 * The facts are stored in a file, under the identity of the machine: vendor, family, model, stepping and name of the
 * processor, target (with its features), cores, processors that the process may use, cache sizes, and hypervisor. One
 * file can hold many machines. A context reads the file once, when it is made (lathe_context_options.calibration), and
 * the CPU devices that it opens use the facts of their machine; lathe_devices shows which. What all workers reach
 * together is used only by devices with as many workers. Nothing is measured unless this function is called, and the
 * choice of kernels remains a pure function of the facts. lathe_device_fingerprint includes them. */
#ifndef LATHE_CALIBRATE_H
#define LATHE_CALIBRATE_H

#include "lathe/lathe.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lathe_calibrate_options {
  size_t struct_size;
  const lathe_chain* next;
  const char* device;   /* NULL: "cpu", the only device that can be measured in this version */
  uint64_t nanoseconds; /* time for everything, at most 10 s; 0: 6 s. With less time, the facts are less certain */
  /* Bytes of memory to read from. 0: four times the last-level cache for each worker, from 64 MB to 1.5 GB, and at most
   * a quarter of the memory that is available. With less than twice the cache, or less than 48 MiB, the rates of memory
   * are not measured. */
  uint64_t pool_bytes;
  /* Path of a calibration file to which the machine is added; other machines stay in it. NULL: only the context's
   * calibration file. A relative path starts at the directory that is current when the call is made. */
  const char* output;
  /* Called once, on the calling thread, with the name "calibration" and the result as JSON:
   *   {"machine":{...}, "workers", "facts":{fact:{"value", "source"}...},
   *    "before":{fact:{"value", "source", "origin"}...}, "absent":{fact:reason...}, "unsteady", "stored":[path...]}
   * "facts" are the measured ones, in units per second, hertz or seconds as their names say; "before" are those that a
   * device has without them. NULL: none. */
  lathe_text_fn text;
  void* text_user;
} lathe_calibrate_options;
#define LATHE_CALIBRATE_OPTIONS_INIT \
  { sizeof(lathe_calibrate_options), NULL, NULL, 0, 0, NULL, NULL, NULL }

typedef struct lathe_calibrate_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t facts;    /* measured facts */
  uint64_t absent;   /* facts that could not be measured, for example with too little memory */
  uint64_t unsteady; /* rates that varied by more than a quarter, because of other work on the machine */
  double milliseconds;
} lathe_calibrate_report;
#define LATHE_CALIBRATE_REPORT_INIT \
  { sizeof(lathe_calibrate_report), NULL, 0, 0, 0, 0.0 }

/* Measures for at most ten seconds, and adds the machine to the context's calibration file and to `output`. Uses the
 * calling thread and a pool of as many threads as the context has workers, also if it has a parallel_for; the threads
 * end with the call. Do not run anything else meanwhile: two calibrations at a time disturb each other, and other work
 * makes the rates smaller.
 * Devices that are open, and contexts that exist, keep their facts. Contexts made afterwards use the new ones.
 * options and report may be NULL.
 * UNSUPPORTED: the device is not "cpu". NOT_AVAILABLE: a file cannot be written, or there is none (no cache directory,
 * no `calibration`, no `output` and no `text`), which is checked before anything is measured; or there was no time to
 * measure anything. INVALID_ARGUMENT: an option is wrong, or a file exists and is damaged; it is left as it is, and
 * `text` still receives the result. */
LATHE_API lathe_status lathe_calibrate(lathe_context* context, const lathe_calibrate_options* options,
                                       lathe_calibrate_report* report);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_CALIBRATE_H */
