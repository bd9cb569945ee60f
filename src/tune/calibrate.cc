#include "tune/calibrate.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cache/private_directory.h"
#include "core/json_object.h"
#include "dispatch/device.h"
#include "observe/text_file.h"
#include "options/path_options.h"
#include "request/pass_text.h"

namespace lathe {
namespace {

constexpr double kMostSeconds = 10, kLockSeconds = 10;

// The files to store in. The cache directory is created if it does not exist.
absl::StatusOr<std::vector<std::string>> files_of(const lathe_context& context,
                                                  const CalibrateRequest& request) {
  std::vector<std::string> files;
  if (!context.calibration_path.empty()) files.push_back(context.calibration_path);
  if (!request.output.empty() && request.output != context.calibration_path) files.push_back(request.output);
  if (files.empty() && request.text == nullptr)
    return absl::UnavailableError(
        "calibrate: there is neither a cache directory nor a file for the facts: set cache_dir, calibration "
        "or output");
  for (const std::string& file : files) {
    if (file == calibration_beside(context.options.cache_dir)) {
      const absl::Status made = make_private_directory(context.cache->directory()).status();
      if (!made.ok()) return absl::UnavailableError(absl::StrCat("calibrate: ", made.message()));
    }
    const absl::Status writable = check_replaceable(file);
    if (!writable.ok()) return absl::UnavailableError(absl::StrCat("calibrate: ", writable.message()));
  }
  return files;
}

absl::Status add_to_file(const std::string& path, const Calibration& calibration) {
  bool locked =
      false;  // without the lock another process may overwrite the entry, which a new calibration mends
  return update_text_file(path, kLockSeconds, &locked,
                          [&](absl::string_view there) -> absl::StatusOr<std::string> {
                            CalibrationFile file;
                            if (!there.empty()) {
                              LATHE_ASSIGN_OR_RETURN(file, parse_calibrations(there));
                            }
                            if (!file.refused.empty())
                              return absl::InvalidArgumentError(file.refused.front());
                            put_calibration(calibration, &file.machines);
                            std::string text = calibration_text(file.machines);
                            // A file that no reader accepts must not be written: it may have too many machines.
                            LATHE_RETURN_IF_ERROR(parse_calibrations(text).status());
                            return text;
                          });
}

Json json_of(const Calibrated& calibrated, const std::vector<std::string>& files) {
  Json json = to_json(calibrated.calibration);
  Json stored = Json::array(), absent = Json::object();
  for (const std::string& file : files) stored.push_back(file);
  for (const auto& [fact, why] : calibrated.absent) absent[fact] = why;
  set_fields(&json, "before", facts_with_origin(calibrated.before.facts), "absent", std::move(absent),
             "unsteady", calibrated.unsteady, "stored", std::move(stored));
  return json;
}

}  // namespace

absl::StatusOr<CalibrateRequest> read_calibrate_options(const lathe_calibrate_options* options) {
  CalibrateRequest out;
  if (options == nullptr) return out;
  const auto invalid = [](const auto&... cause) {
    return absl::InvalidArgumentError(absl::StrCat("lathe_calibrate_options: ", cause...));
  };
  if (options->struct_size != sizeof *options)
    return invalid("struct_size ", options->struct_size, " is not ", sizeof *options);
  if (options->next != nullptr)
    return absl::UnimplementedError("lathe_calibrate_options: no chain element is known here");
  if (options->device != nullptr) out.device = options->device;
  const double seconds = static_cast<double>(options->nanoseconds) * 1e-9;
  if (seconds > kMostSeconds)
    return invalid("nanoseconds ", options->nanoseconds, " is more than 10 seconds");
  if (options->nanoseconds > 0) out.measure.seconds = seconds;
  out.measure.pool_bytes = options->pool_bytes;
  if (options->output != nullptr) {
    LATHE_ASSIGN_OR_RETURN(out.output, absolute_option("lathe_calibrate_options: output", options->output));
  }
  out.text = options->text;
  out.text_user = options->text_user;
  return out;
}

absl::Status calibrate(lathe_context& context, const CalibrateRequest& request,
                       lathe_calibrate_report* report) {
  const auto start = std::chrono::steady_clock::now();
  LATHE_RETURN_IF_ERROR(check_calibratable(request.device));
  LATHE_ASSIGN_OR_RETURN(const std::vector<std::string> files, files_of(context, request));
  LATHE_ASSIGN_OR_RETURN(const Calibrated calibrated,
                         calibrate_device(request.device, driver_options(context), request.measure));
  if (calibrated.calibration.facts.empty())
    return absl::UnavailableError(
        "calibrate: there was no time to measure anything, so nothing was stored: give it more time");
  absl::Status status;
  std::vector<std::string> stored;
  for (const std::string& file : files) {
    const absl::Status added = add_to_file(file, calibrated.calibration);
    if (added.ok())
      stored.push_back(file);
    else
      status.Update(absl::Status(added.code(), absl::StrCat("calibrate: ", added.message())));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report->facts = calibrated.calibration.facts.size();
  report->absent = calibrated.absent.size();
  report->unsteady = static_cast<uint64_t>(calibrated.unsteady);
  report->milliseconds = took.count();
  if (request.text != nullptr)
    pass_text(request.text, request.text_user, "calibration", json_of(calibrated, stored));
  return status;
}

}  // namespace lathe
