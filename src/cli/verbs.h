// The verbs of the command. main.cc lists them in the order of the help.
#pragma once

#include "cli/command_line.h"

namespace lathe::cli {

Verb devices_verb();
Verb calibrate_verb();
// One verb for each op.
std::vector<Verb> run_verbs();
std::vector<Verb> bench_verbs();
std::vector<Verb> explain_verbs();
std::vector<Verb> dump_verbs();
// One verb for each op, then the one that takes a file.
std::vector<Verb> warm_verbs();
std::vector<Verb> tune_verbs();
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
Verb manifest_verb();
Verb selftest_verb();
Verb ukernel_add_verb();
Verb ukernel_ls_verb();
Verb ukernel_remove_verb();

}  // namespace lathe::cli
