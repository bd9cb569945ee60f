#include "aarch64_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

extern "C" {
#include "aarch64/messages.h"
}

namespace lathe::conformance {
namespace {

static_assert(sizeof(ArgumentBlock) <= kMostArgumentBytes,
              "the argument block does not fit into the message");

struct Mapping {
  uint64_t begin = 0, end = 0;
  bool writable = false;
};

// The readable mapping of this process that contains the address; begin is 0 if there is none.
Mapping mapping_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping m;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &m.begin, &m.end, access) != 3) continue;
    m.writable = access[1] == 'w';
    const auto at = reinterpret_cast<uint64_t>(address);
    if (at >= m.begin && at < m.end && access[0] == 'r') return m;
  }
  return {};
}

// Addresses of a launch's workspace and scratch memory in the runner's view; nothing is mapped there in this process.
constexpr uint64_t kWorkspaceAt = uint64_t{1} << 60, kScratchAt = uint64_t{1} << 61;

std::vector<void*> operands_of(const ArgumentBlock& args) {
  std::vector<void*> all = {args.a,      args.b,       args.c,       args.d,      args.bias,  args.residual,
                            args.values, args.scale_a, args.scale_b, args.zero_a, args.zero_b};
  all.erase(std::remove(all.begin(), all.end(), nullptr), all.end());
  return all;
}

int64_t pointers_of_block() {
  return std::count_if(std::begin(kArgumentFields), std::end(kArgumentFields),
                       [](const ArgumentField& f) { return f.kind == ArgumentKind::ptr; });
}

void add_scratch(uint64_t at, size_t bytes, std::vector<Region>* regions) {
  if (bytes > 0) regions->push_back({at, (bytes + kPage - 1) / kPage * kPage, kScratch});
}

}  // namespace

std::string find_qemu() {
  for (const char* path :
       {"/usr/bin/qemu-aarch64", "/usr/bin/qemu-aarch64-static", "/usr/local/bin/qemu-aarch64"})
    if (access(path, X_OK) == 0) return path;
  return "";
}

Aarch64Process::Aarch64Process(const std::string& cpu) : cpu_(cpu) { signal(SIGPIPE, SIG_IGN); }
Aarch64Process::~Aarch64Process() { stop(); }

bool Aarch64Process::start() {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return false;
  const std::string qemu = find_qemu();
  child_ = fork();
  if (child_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl(qemu.c_str(), qemu.c_str(), "-cpu", cpu_.c_str(), LATHE_AARCH64_RUNNER, nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  return child_ > 0;
}

void Aarch64Process::stop() {
  if (child_ <= 0) return;
  close(to_);
  close(from_);
  waitpid(child_, nullptr, 0);
  child_ = -1;
}

bool Aarch64Process::send(const void* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = write(to_, data, bytes);
    if (n <= 0) return false;
    data = static_cast<const char*>(data) + n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool Aarch64Process::receive(void* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = read(from_, data, bytes);
    if (n <= 0) return false;
    data = static_cast<char*>(data) + n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::string Aarch64Process::death() {
  close(to_);
  close(from_);
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = -1;
  // qemu ends with the signal that ended the emulated program.
  if (WIFSIGNALED(status)) return std::string("the runner was killed by: ") + strsignal(WTERMSIG(status));
  return "the runner ended with status " + std::to_string(WEXITSTATUS(status));
}

std::string Aarch64Process::answer() {
  Answer a;
  if (!receive(&a, sizeof(a))) return death();
  return a.failed ? std::string("runner: ") + a.text : "";
}

std::string Aarch64Process::load(const Artifact& artifact) {
  if (artifact.format != CodeFormat::kElfObject) return "not an ELF object";
  if (child_ <= 0 && !start()) return "cannot start the runner";
  recipe_ = artifact.recipe;
  const Command command = {kLoad, artifact.code.size()};
  if (!send(&command, sizeof(command)) || !send(artifact.code.data(), artifact.code.size())) return death();
  return answer();
}

std::string Aarch64Process::launch(const ProblemClass& problem, const Dims& dims, int32_t splits,
                                   ArgumentBlock args) {
  const LaunchConfig config = make_launch_config(recipe_, problem, dims, splits);
  args.splits = config.splits;
  args.k_chunk = config.k_chunk;
  std::vector<Region> regions;
  for (const void* operand : operands_of(args)) {
    const Mapping m = mapping_of(operand);
    if (m.begin == 0) return "an operand is not in any mapping";
    const Region r = {m.begin, m.end - m.begin, static_cast<uint64_t>(m.writable ? kOutput : kInput)};
    if (std::none_of(regions.begin(), regions.end(), [&](const Region& o) { return o.address == r.address; }))
      regions.push_back(r);
  }
  add_scratch(kWorkspaceAt, config.workspace_bytes, &regions);
  add_scratch(kScratchAt, config.scratch_bytes_per_worker, &regions);
  args.workspace = reinterpret_cast<void*>(config.workspace_bytes ? kWorkspaceAt : 0);
  args.scratch = reinterpret_cast<void*>(config.scratch_bytes_per_worker ? kScratchAt : 0);

  Run run = {};
  run.regions = regions.size();
  run.steps = recipe_.steps.size();
  run.pointers = static_cast<uint64_t>(pointers_of_block());
  run.argument_bytes = sizeof(args);
  std::memcpy(run.arguments, &args, sizeof(args));
  const VarValues sizes = var_values(dims, config);
  for (size_t i = 0; i < recipe_.steps.size() && i < kMostSteps; ++i) {
    const Step& step = recipe_.steps[i];
    if (step.symbol.size() >= sizeof(run.step[i].symbol)) return "a symbol is too long: " + step.symbol;
    std::memcpy(run.step[i].symbol, step.symbol.c_str(), step.symbol.size());
    run.step[i].tasks =
        evaluate(step.grid[0], sizes) * evaluate(step.grid[1], sizes) * evaluate(step.grid[2], sizes);
  }
  const Command command = {kRun, 0};
  bool sent = send(&command, sizeof(command)) && send(&run, sizeof(run));
  for (const Region& r : regions) {
    sent = sent && send(&r, sizeof(r));
    if (r.kind != kScratch) sent = sent && send(reinterpret_cast<void*>(r.address), r.bytes);
  }
  if (!sent) return death();
  if (std::string error = answer(); !error.empty()) return error;
  for (const Region& r : regions)
    if (r.kind == kOutput && !receive(reinterpret_cast<void*>(r.address), r.bytes)) return death();
  return "";
}

}  // namespace lathe::conformance
