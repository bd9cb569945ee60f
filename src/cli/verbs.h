// The verbs of the command. main.cc lists them in the order of the help.
#pragma once

#include "cli/command_line.h"

namespace lathe::cli {

Verb devices_verb();
Verb calibrate_verb();
Verb run_matmul_verb();
Verb run_argmax_verb();
Verb run_matmul_argmax_verb();
Verb bench_matmul_verb();
Verb bench_argmax_verb();
Verb bench_matmul_argmax_verb();
Verb explain_matmul_verb();
Verb explain_argmax_verb();
Verb explain_matmul_argmax_verb();
Verb explain_elementwise_verb();
Verb dump_matmul_verb();
Verb dump_argmax_verb();
Verb dump_matmul_argmax_verb();
Verb dump_elementwise_verb();
Verb compile_verb();
Verb plan_verb();
Verb kernel_bench_verb();
Verb cache_ls_verb();
Verb cache_stats_verb();
Verb cache_top_verb();
Verb cache_verify_verb();
Verb cache_prune_verb();
Verb cache_export_verb();
Verb cache_import_verb();
Verb cache_clear_verb();
Verb bundle_create_verb();
Verb bundle_ls_verb();
Verb bundle_verify_verb();
Verb bundle_merge_verb();
Verb warm_verb();
Verb warm_matmul_argmax_verb();
Verb tune_matmul_verb();
Verb tune_argmax_verb();
Verb tune_matmul_argmax_verb();
Verb tune_verb();
Verb manifest_verb();
Verb selftest_verb();
Verb ukernel_add_verb();
Verb ukernel_ls_verb();
Verb ukernel_remove_verb();

}  // namespace lathe::cli
