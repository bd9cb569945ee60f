// What a person sees of a warm-up: a bar on a terminal, lines elsewhere; and Ctrl-C, which ends it cleanly.
#pragma once

#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "absl/functional/function_ref.h"

namespace lathe::cli {

// "[#####.....]  60/120  12.5/s  0:05 left  llama3-8b qkv", at most `columns` wide.
std::string bar_text(uint64_t done, uint64_t total, double seconds, const std::string& what, int columns);
// "  60 of 120, 12.5/s, 0:05 left: matmul ...".
std::string progress_line(uint64_t done, uint64_t total, double seconds, const std::string& what);

// Answers as `run`, which is given the options with what follows. SIGINT ends it after what is under way; a
// second one kills. Failures are told as they happen, in lines of their own on stderr; so is the bar, or a
// line at most every two seconds where stderr is no terminal.
lathe_status run_with_bar(lathe_warmup_options options,
                          absl::FunctionRef<lathe_status(const lathe_warmup_options&)> run);

}  // namespace lathe::cli
