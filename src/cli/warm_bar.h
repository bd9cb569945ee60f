// Shows the progress of a warm-up, as a bar on a terminal and as lines elsewhere, and ends it on Ctrl-C.
#pragma once

#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace lathe::cli {

// The bar, cut to `columns` characters: "[#####.....]  60/120  12.5/s  0:05 left  llama3-8b qkv".
std::string bar_text(uint64_t done, uint64_t total, double seconds, const std::string& what, int columns);
// The line: "60 of 120, 12.5/s, 0:05 left: matmul ...".
std::string progress_line(uint64_t done, uint64_t total, double seconds, const std::string& what);

// Calls `run` with `options`, to which a progress callback and a cancel flag are added, and returns its status. The
// first SIGINT ends it after the current kernels; the second one kills the process. Failures and progress go to
// stderr: a bar on a terminal, else a line at most every two seconds.
absl::Status run_with_bar(lathe_warmup_options options,
                          absl::FunctionRef<absl::Status(const lathe_warmup_options&)> run);

}  // namespace lathe::cli
