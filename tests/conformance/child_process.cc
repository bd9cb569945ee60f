// The child of process_test: runs a fixed set of requests with a cache directory and prints one line with the result:
// "status=OK wrong=0 compiles=5 disk_hits=0 compiler_loaded=1 mapped=1 | message".
//   child_process CACHE_DIRECTORY [COMPILER_LIBRARY]
#include <cstdio>
#include <fstream>
#include <string>

#include "argmax_case.h"
#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

bool compiler_is_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("liblathe-compiler") != std::string::npos) return true;
  }
  return false;
}

std::vector<MatmulCase> requests() {
  std::vector<MatmulCase> cases(4);
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].m = static_cast<int64_t>(1 + 11 * i);
    cases[i].n = 70;
    cases[i].k = 90;
    cases[i].trans_b = i % 2;
  }
  cases[3].bias = LATHE_F16;
  cases[3].split_k = 3;
  return cases;
}

int run(const char* cache_directory, const char* compiler_library) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.cache_dir = cache_directory;
  options.compiler_library = compiler_library;
  options.workers = 2;
  OpenDevice device(options);
  Random random = random_stream(7);
  lathe_status status = device.status();
  int wrong = 0;
  std::string message = status == LATHE_OK ? "" : lathe_last_error();
  const OperandsOn operands(device.get());
  for (const MatmulCase& c : requests()) {
    if (status != LATHE_OK) break;
    MatmulRequest request(c, &random);
    request.reset_output();
    status = lathe_matmul(device.get(), nullptr, request.desc());
    if (status != LATHE_OK) message = lathe_last_error();
    wrong += status == LATHE_OK && !request.check();
  }
  if (status == LATHE_OK) {
    ArgmaxCase c;
    c.rows = 3;
    c.n = 5000;
    ArgmaxRequest request(c, &random);
    status = lathe_argmax(device.get(), nullptr, request.desc());
    if (status != LATHE_OK) message = lathe_last_error();
    wrong += status == LATHE_OK && !request.check();
  }
  lathe_statistics statistics = LATHE_STATISTICS_INIT;
  lathe_context_statistics(device.context(), &statistics);
  std::printf("status=%s wrong=%d compiles=%llu disk_hits=%llu compiler_loaded=%llu mapped=%d | %s\n",
              lathe_status_name(status), wrong, static_cast<unsigned long long>(statistics.compiles),
              static_cast<unsigned long long>(statistics.disk_hits),
              static_cast<unsigned long long>(statistics.compiler_loaded), compiler_is_mapped(),
              message.c_str());
  return 0;
}

}  // namespace
}  // namespace lathe::conformance

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return lathe::conformance::run(argv[1], argc > 2 ? argv[2] : nullptr);
}
