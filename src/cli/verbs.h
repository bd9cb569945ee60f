// The verbs, one file each (run.cc holds both ops). main.cc is their only list.
#pragma once

#include "cli/command_line.h"

namespace lathe::cli {

Verb devices_verb();
Verb run_matmul_verb();
Verb run_argmax_verb();
Verb run_matmul_argmax_verb();
Verb explain_matmul_verb();
Verb explain_argmax_verb();
Verb explain_matmul_argmax_verb();
Verb dump_matmul_verb();
Verb dump_argmax_verb();
Verb dump_matmul_argmax_verb();
Verb cache_ls_verb();
Verb cache_stats_verb();
Verb cache_clear_verb();
Verb warm_verb();
Verb warm_matmul_argmax_verb();
Verb selftest_verb();

}  // namespace lathe::cli
