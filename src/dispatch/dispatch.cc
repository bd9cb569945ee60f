#include "dispatch/dispatch.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/generic.h"
#include "core/json_object.h"
#include "dispatch/empty_product.h"
#include "dispatch/externals.h"
#include "dispatch/fallback.h"
#include "dispatch/miss.h"
#include "dispatch/prepare.h"
#include "dispatch/prepare_scaled.h"
#include "observe/number_text.h"

namespace lathe {
namespace {

// Puts the request in front of a message, unless it is there already.
[[gnu::cold]] absl::Status with_request(const absl::Status& status, const lathe_device& device,
                                        absl::string_view request) {
  if (absl::StrContains(status.message(), request)) return status;
  return in_request(request, device.name, status);
}
[[gnu::cold]] absl::Status with_request(const absl::Status& status, const lathe_device& device,
                                        const Request& request) {
  return with_request(status, device, describe(request));
}

// Writes a miss to the trace and the log, with its outcome and the time it took.
void report_miss(const lathe_device& device, const Request& request, Trace::Clock::time_point start,
                 const std::string& kernel, absl::string_view outcome) {
  const lathe_context& context = device.context;
  const std::chrono::duration<double, std::milli> took = Trace::Clock::now() - start;
  if (context.trace.enabled()) {
    context.trace.span("miss", describe(request), start,
                       json_object("device", device.name, "kernel", kernel, "outcome", std::string(outcome)));
  }
  if (context.logger.enabled(LogLevel::kInfo)) {
    context.logger.log(LogLevel::kInfo, absl::StrCat("miss: ", describe(request, device.name), ": ", kernel,
                                                     kernel.empty() ? "" : ", ", outcome, ", ",
                                                     number_text("%.1f", took.count()), " ms"));
  }
}

// The caller has called note_miss().
[[gnu::noinline, gnu::cold]] absl::StatusOr<const DispatchEntry*> prepare(lathe_device& device,
                                                                          const Request& request) {
  const auto start = Trace::Clock::now();
  if (request.miss_policy == MissPolicy::kError) {
    report_miss(device, request, start, "", "refused");
    return with_request(miss_error("no kernel of this class is loaded and the miss policy is ERROR"), device,
                        request);
  }
  absl::StatusOr<PreparedClass> prepared = prepare_class(device, request.key, PrepareFor::kCall);
  if (!prepared.ok()) return with_request(prepared.status(), device, request);
  report_miss(device, request, start, prepared->kernel, name_of(prepared->outcome));
  return prepared->entry;
}

// There are no generic kernels, so the call blocks. If that fails too, the error has both causes.
absl::StatusOr<const DispatchEntry*> prepare_without_generic(lathe_device& device, const Request& request,
                                                             const absl::Status& why) {
  device.context.logger.log(
      device.context.told_of_no_fallback.exchange(true) ? LogLevel::kDebug : LogLevel::kWarning,
      absl::StrCat(describe(request, device.name), ": ", why.message(),
                   "; this miss and later ones block, as under the miss policy BLOCK"));
  absl::StatusOr<const DispatchEntry*> entry = prepare(device, request);
  if (entry.ok()) return entry;
  return absl::Status(entry.status().code(), absl::StrCat(entry.status().message(), "; ", why.message()));
}

// Runs the request on a generic kernel and lets the background thread prepare its own. If no generic kernel
// serves the request, its own is prepared here.
absl::StatusOr<const DispatchEntry*> fall_back(lathe_device& device, const Request& request) {
  const auto start = Trace::Clock::now();
  absl::StatusOr<const DispatchEntry*> entry = find_generic(device, request);
  if (absl::IsUnavailable(entry.status())) return prepare_without_generic(device, request, entry.status());
  if (!entry.ok()) return with_request(entry.status(), device, request);
  if (*entry == nullptr) return prepare(device, request);
  Counters& counters = device.context.counters;
  counters.fallback_runs.fetch_add(1, std::memory_order_relaxed);
  switch (device.context.background.submit(device, request.key)) {
    case Submitted::kNew: report_miss(device, request, start, "generic kernel", "its own is queued"); break;
    case Submitted::kBefore: break;
    case Submitted::kRefused:
      counters.background_refused.fetch_add(1, std::memory_order_relaxed);
      if (device.context.logger.enabled(LogLevel::kDebug))
        report_miss(device, request, start, "generic kernel", "the queue is full");
      break;
  }
  return entry;
}

// While a stream is being captured, only launches are allowed: nothing is compiled or loaded.
[[gnu::noinline, gnu::cold]] absl::StatusOr<const DispatchEntry*> prepare_for_run(lathe_device& device,
                                                                                  const Request& request) {
  const absl::StatusOr<bool> capturing = device.driver->is_capturing(request.stream);
  if (!capturing.ok()) return with_request(capturing.status(), device, request);
  note_miss(device, request, *capturing);
  if (!*capturing) {
    const bool falls_back = request.miss_policy == MissPolicy::kFallback && may_fall_back(device, request);
    return falls_back ? fall_back(device, request) : prepare(device, request);
  }
  report_miss(device, request, Trace::Clock::now(), "", "refused in a capture");
  return with_request(capturing_error("no kernel of this class is loaded and the stream is being captured"),
                      device, request);
}

absl::Status check_workspace(const lathe_device& device, const Launch& launch, int32_t workers) {
  const size_t needed = device.driver->workspace_bytes(*launch.kernel, launch.config, workers);
  if (launch.workspace_bytes >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the workspace has ", launch.workspace_bytes, " bytes, but the launch needs ", needed));
}

absl::Status launch(lathe_device& device, const Launch& launch, const Slice* slice) {
  if (slice != nullptr) {
    LATHE_RETURN_IF_ERROR(check_workspace(device, launch, slice->workers));
    return device.driver->launch_slice(launch, *slice);
  }
  if (launch.workspace != nullptr) {
    LATHE_RETURN_IF_ERROR(check_workspace(device, launch, device.driver->workers()));
  }
  return device.driver->launch(launch);
}

// Passes the properties that a generic kernel leaves open.
[[gnu::noinline, gnu::cold]] void prepare_generic(const lathe_device& device, const DispatchEntry& entry,
                                                  Request& request) {
  request.args.form = form_of(request.key.problem);
  leave_small_workspace(device, entry, request);
}

// Calls hit(entry) if the table has the entry.
template <typename Hit>
absl::Status run(lathe_device& device, Request& request, const Hit& hit) {
  if (__builtin_expect(request.needs_no_kernel(), 0)) return run_without_kernel(request);
  const DispatchEntry* entry = device.table.find(request.key);
  if (__builtin_expect(entry != nullptr, 1)) {
    device.context.counters.dispatch_hits.add();
    hit(*entry);
  } else {
    LATHE_ASSIGN_OR_RETURN(entry, prepare_for_run(device, request));
  }
  return launch_request(device, *entry, request, nullptr);
}

// Runs Lathe's own kernel after an external library refused or failed the launch.
[[gnu::noinline, gnu::cold]] absl::Status launch_own(lathe_device& device, const DispatchEntry& entry,
                                                     Request& request, const absl::Status& why) {
  const std::optional<DispatchKey> own = without_external(device, entry.key);
  if (!own) return with_request(why, device, request);
  if (device.table.find(*own) == nullptr) {
    device.context.logger.log(LogLevel::kWarning,
                              absl::StrCat(describe(request, device.name), ": ", why.message(),
                                           "; Lathe's own kernel runs instead"));
  }
  request.key = *own;
  LATHE_ASSIGN_OR_RETURN(const DispatchEntry* instead, find_or_prepare(device, request, Purpose::kRun));
  leave_small_workspace(device, *instead, request);
  return launch_request(device, *instead, request, nullptr);
}

}  // namespace

LaunchConfig launch_config_for(const DispatchEntry& entry, const Request& request) {
  LaunchConfig config;
  entry.set_launch_config(request.key.problem, request.dims, &config);
  return config;
}

absl::StatusOr<const DispatchEntry*> find_or_prepare(lathe_device& device, const Request& request,
                                                     Purpose purpose) {
  if (const DispatchEntry* entry = device.table.find(request.key)) {
    device.context.counters.dispatch_hits.add();
    return entry;
  }
  if (purpose == Purpose::kRun) return prepare_for_run(device, request);
  note_miss(device, request, /*capturing=*/false);
  return prepare(device, request);
}

void leave_small_workspace(const lathe_device& device, const DispatchEntry& entry, Request& request) {
  const LaunchConfig config = launch_config_for(entry, request);
  const size_t needed = device.driver->workspace_bytes(*entry.kernel, config, device.driver->workers());
  if (request.workspace_bytes / (request.workspace_is_zeroed ? 2 : 1) >= needed) return;
  request.workspace = nullptr;
  request.workspace_bytes = 0;
}

absl::Status run_without_kernel(const Request& request) {
  if (!request.nothing_to_do) run_empty_product(request.key.problem, request.args);
  return absl::OkStatus();
}

// A slice would decode A once for each worker and phase.
[[gnu::noinline, gnu::cold]] static absl::Status launch_block_scaled(lathe_device& device,
                                                                     const DispatchEntry& entry,
                                                                     Request& request, const Slice* slice) {
  if (slice != nullptr)
    return with_request(absl::UnimplementedError("a product with block scales cannot be run in slices"),
                        device, request);
  const absl::Status status = launch_scaled(device, entry, request);
  return status.ok() ? status : with_request(status, device, request);
}

absl::Status launch_request(lathe_device& device, const DispatchEntry& entry, Request& request,
                            const Slice* slice) {
  if (__builtin_expect(request.scaled.has_value(), 0) && device.is_cpu)
    return launch_block_scaled(device, entry, request, slice);
  if (__builtin_expect(entry.key.problem.generic != 0, 0)) prepare_generic(device, entry, request);
  Launch l;
  l.kernel = entry.kernel;
  l.problem = &request.key.problem;
  entry.set_launch_config(request.key.problem, request.dims, &l.config);
  l.dims = request.dims;
  l.args = &request.args;
  l.stream = request.stream;
  l.workspace = request.workspace;
  l.workspace_bytes = request.workspace_bytes;
  l.workspace_is_zeroed = request.workspace_is_zeroed;
  l.zero_product = request.zero_product;
  request.args.splits = l.config.splits;
  request.args.k_chunk = l.config.k_chunk;
  absl::Status status = launch(device, l, slice);
  if (__builtin_expect(status.ok(), 1)) return status;
  if (absl::IsUnavailable(status) && slice == nullptr && is_external(*entry.kernel))
    return launch_own(device, entry, request, status);
  return with_request(status, device, request);
}

template <typename Desc>
absl::Status run_again(lathe_device& device, RecentCall<Desc>& recent, void* stream, const Desc& desc) {
  device.context.counters.dispatch_hits.add();
  if (__builtin_expect(recent.run_on_caller(desc), 1)) return absl::OkStatus();
  ArgumentBlock args;
  const Launch launch = recent.launch(desc, stream, device.is_cpu ? &args : nullptr);
  absl::Status status = device.driver->launch(launch);
  if (__builtin_expect(status.ok(), 1)) return status;
  return with_request(status, device, describe(*launch.problem, launch.dims));
}
template absl::Status run_again(lathe_device&, RecentCall<lathe_matmul_desc>&, void*,
                                const lathe_matmul_desc&);
template absl::Status run_again(lathe_device&, RecentCall<lathe_argmax_desc>&, void*,
                                const lathe_argmax_desc&);

template <typename Desc>
absl::Status run_op(lathe_device& device, void* stream, const Desc* desc) {
  if constexpr (kKeepsCalls<Desc>) {
    if (RecentCall<Desc>* const recent = RecentCall<Desc>::find(device, stream, desc))
      return run_again(device, *recent, stream, *desc);
  }
  Request request;
  LATHE_RETURN_IF_ERROR(read_request(desc, Purpose::kRun, device.request_context(), stream, &request));
  LATHE_RETURN_IF_ERROR(check_runnable(device));
  return run(device, request, [&](const DispatchEntry& entry) {
    if constexpr (kKeepsCalls<Desc>) RecentCall<Desc>::keep(device, *desc, request, entry);
  });
}
#define LATHE_RUN_OP(op, value, name, rows, traits) \
  template absl::Status run_op(lathe_device&, void*, const lathe_##name##_desc*);
LATHE_OPS(LATHE_RUN_OP)
#undef LATHE_RUN_OP

}  // namespace lathe
