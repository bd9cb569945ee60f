// C functions: contexts, statistics, the contents of the cache, devices.
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "dispatch/context.h"
#include "dispatch/device.h"

using lathe::at_boundary;
using lathe::null_argument;
using lathe::pass_text;

namespace {

// A program that runs with more rights than its caller (set-user-ID) must not take paths from the caller's environment.
// For such a program no variable is set, so it has only the cache directory that it names itself.
const char* read_environment(const char* name) { return secure_getenv(name); }

}  // namespace

extern "C" {

lathe_status lathe_context_create(const lathe_context_options* options, lathe_context** context) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_context_create", "context");
    *context = nullptr;
    LATHE_ASSIGN_OR_RETURN(lathe::ContextOptions read, lathe::read_options(options, read_environment));
    auto made = std::make_unique<lathe_context>(std::move(read));
    LATHE_RETURN_IF_ERROR(lathe::read_pipelines(made.get()));
    *context = made.release();
    return absl::OkStatus();
  });
}

void lathe_context_destroy(lathe_context* context) {
  if (context == nullptr) return;
  at_boundary([&]() -> absl::Status {
    const int devices = context->devices.load(std::memory_order_acquire);
    if (devices == 0) {
      delete context;
      return absl::OkStatus();
    }
    // Freeing what open devices point to would turn a leak into a crash.
    context->logger.log(lathe::LogLevel::kError, absl::StrCat("lathe_context_destroy: ", devices,
                                                              " devices are open; the context leaks"));
    return absl::OkStatus();
  });
}

lathe_status lathe_context_statistics(lathe_context* context, lathe_statistics* statistics) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_context_statistics", "context");
    LATHE_RETURN_IF_ERROR(lathe::check_out_struct("lathe_statistics", statistics));
    lathe::read_statistics(*context, statistics);
    return absl::OkStatus();
  });
}

lathe_status lathe_context_metrics(lathe_context* context, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_context_metrics", "context");
    if (text == nullptr) return null_argument("lathe_context_metrics", "text");
    lathe_statistics statistics = LATHE_STATISTICS_INIT;
    lathe::read_statistics(*context, &statistics);
    const std::string out = lathe::metrics_text(statistics);
    text(user, "metrics", out.data(), out.size());
    return absl::OkStatus();
  });
}

lathe_status lathe_context_set_miss(lathe_context* context, lathe_miss_policy policy, lathe_miss_fn callback,
                                    void* user) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_context_set_miss", "context");
    LATHE_ASSIGN_OR_RETURN(const lathe::MissPolicy read,
                           lathe::read_miss_policy(policy, context->misses.initial()));
    context->misses.set(read, callback, user);
    return absl::OkStatus();
  });
}

lathe_status lathe_cache_list(lathe_context* context, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_cache_list", "context");
    if (text == nullptr) return null_argument("lathe_cache_list", "text");
    LATHE_ASSIGN_OR_RETURN(const lathe::Json listing, lathe::cache_json(*context));
    pass_text(text, user, "cache", listing);
    return absl::OkStatus();
  });
}

lathe_status lathe_cache_clear(lathe_context* context, uint64_t* removed) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_cache_clear", "context");
    LATHE_ASSIGN_OR_RETURN(const uint64_t count, context->cache->clear());
    if (removed != nullptr) *removed = count;
    return absl::OkStatus();
  });
}

lathe_status lathe_cache_prune(lathe_context* context, uint64_t bytes, uint64_t* removed) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_cache_prune", "context");
    LATHE_ASSIGN_OR_RETURN(const uint64_t count, context->cache->prune(bytes));
    if (removed != nullptr) *removed = count;
    return absl::OkStatus();
  });
}

lathe_status lathe_devices(lathe_context* context, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_devices", "context");
    if (text == nullptr) return null_argument("lathe_devices", "text");
    pass_text(text, user, "devices", lathe::devices_json(*context));
    return absl::OkStatus();
  });
}

lathe_status lathe_device_open(lathe_context* context, const char* name, lathe_device** device) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_device_open", "device");
    *device = nullptr;
    if (context == nullptr) return null_argument("lathe_device_open", "context");
    if (name == nullptr) return null_argument("lathe_device_open", "name");
    LATHE_ASSIGN_OR_RETURN(std::unique_ptr<lathe_device> opened, lathe::open_device(*context, name));
    *device = opened.release();
    return absl::OkStatus();
  });
}

lathe_status lathe_device_describe(lathe_context* context, const char* facts_path, const char* target,
                                   lathe_device** device) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_device_describe", "device");
    *device = nullptr;
    if (context == nullptr) return null_argument("lathe_device_describe", "context");
    if (facts_path == nullptr) return null_argument("lathe_device_describe", "facts_path");
    LATHE_ASSIGN_OR_RETURN(std::unique_ptr<lathe_device> described,
                           lathe::describe_device(*context, facts_path, target == nullptr ? "" : target));
    *device = described.release();
    return absl::OkStatus();
  });
}

void lathe_device_close(lathe_device* device) {
  at_boundary([&]() -> absl::Status {
    delete device;
    return absl::OkStatus();
  });
}

lathe_status lathe_device_fingerprint(lathe_device* device, uint64_t* fingerprint) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_device_fingerprint", "device");
    if (fingerprint == nullptr) return null_argument("lathe_device_fingerprint", "fingerprint");
    *fingerprint = lathe::fingerprint_of(*device);
    return absl::OkStatus();
  });
}

}  // extern "C"
