#include "statistics.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lathe_ggml {
namespace {

struct Time {
  int64_t nodes = 0, nanoseconds = 0;
};
struct Table {
  std::mutex mutex;
  std::map<std::string, Time> times;
  std::map<std::string, int64_t> refusals;
};

void print_table();
Table& table() {
  static Table* all = [] {
    std::atexit(print_table);
    return new Table;
  }();
  return *all;
}

void print_table() {
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<std::pair<std::string, Time>> rows(all.times.begin(), all.times.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  double total = 0;
  for (const auto& row : rows) total += static_cast<double>(row.second.nanoseconds);
  if (!rows.empty()) std::fprintf(stderr, "lathe: %10s %10s %6s  operation\n", "nodes", "ms", "share");
  for (const auto& [name, time] : rows) {
    std::fprintf(stderr, "lathe: %10lld %10.2f %5.1f%%  %s\n", static_cast<long long>(time.nodes),
                 static_cast<double>(time.nanoseconds) / 1e6,
                 100 * static_cast<double>(time.nanoseconds) / total, name.c_str());
  }
  for (const auto& [name, count] : all.refusals) {
    std::fprintf(stderr, "lathe: not taken %lld times: %s\n", static_cast<long long>(count), name.c_str());
  }
}

std::string name_of(const ggml_tensor* node) {
  std::string name = ggml_op_desc(node);
  if (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID) {
    name += std::string(" ") + ggml_type_name(node->src[0]->type) +
            (node->src[1]->ne[1] == 1 ? " of one row" : " of rows");
  }
  return name;
}

}  // namespace

bool is_verbose() {
  static const bool verbose = [] {
    const char* asked = std::getenv("LATHE_GGML_VERBOSE");
    return asked != nullptr && std::strcmp(asked, "") != 0 && std::strcmp(asked, "0") != 0;
  }();
  return verbose;
}

void count_time(const ggml_tensor* node, bool by_lathe, int64_t nanoseconds) {
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Time& time = all.times[name_of(node) + (by_lathe ? " (Lathe)" : " (ggml)")];
  ++time.nodes;
  time.nanoseconds += nanoseconds;
}

void count_refusal(const ggml_tensor* node, const char* reason) {
  if (reason == nullptr || !is_verbose()) return;
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  ++all.refusals[name_of(node) + ": " + reason];
}

}  // namespace lathe_ggml
