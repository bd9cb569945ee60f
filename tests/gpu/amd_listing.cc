#include "amd_listing.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace lathe {
namespace {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    const int fd = mkstemp(path_);
    if (fd < 0) throw std::runtime_error("cannot create a temporary file");
    const bool written = write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    close(fd);
    if (!written) throw std::runtime_error("cannot write a temporary file");
  }
  ~TemporaryFile() { unlink(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/lathe-code-XXXXXX";
};

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  if (pclose(pipe) != 0) throw std::runtime_error(command + ": " + text);
  return text;
}

// Parses "\tv_add_u32_e32 v0, v1, v2   // 000000001B00: 68000501 <symbol+0x10>". For a branch, the comment ends with
// the symbol and the distance of the target.
bool parse_instruction(const std::string& line, int64_t start, AmdInstruction* out) {
  const size_t comment = line.find("// ");
  if (line.empty() || line[0] != '\t' || comment == std::string::npos) return false;
  const size_t end = line.find_last_not_of(" \t", comment - 1);
  out->text = line.substr(1, end);
  out->address = std::stoll(line.substr(comment + 3), nullptr, 16);
  const size_t distance = line.rfind("+0x");
  if (line.back() == '>' && distance != std::string::npos && distance > comment)
    out->target = start + std::stoll(line.substr(distance + 1), nullptr, 16);
  return true;
}

std::string mnemonic(const AmdInstruction& i) { return i.text.substr(0, i.text.find(' ')); }

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The number of loads that a wait allows in flight, from "s_waitcnt vmcnt(3)" or "s_wait_loadcnt 0x3". -1 if it does
// not wait for loads.
int64_t loads_left(const AmdInstruction& i) {
  size_t at = i.text.find("vmcnt(");
  if (i.is("s_waitcnt") && at != std::string::npos) return std::stoll(i.text.substr(at + 6));
  if (!i.is("s_wait_loadcnt")) return -1;
  const int64_t count = std::stoll(i.text.substr(i.text.find(' ') + 1), nullptr, 0);
  return i.is("s_wait_loadcnt_dscnt") ? count >> 8 : count;  // the lower byte counts LDS operations
}

int64_t most_in_flight(const AmdCode& loop) {
  int64_t now = 0, most = 0;
  for (int pass = 0; pass < 3; ++pass)
    for (const AmdInstruction& i : loop) {
      if (is_load(i)) most = std::max(most, ++now);
      if (const int64_t left = loads_left(i); left >= 0) now = std::min(now, left);
    }
  return most;
}

}  // namespace

std::map<std::string, AmdCode> disassemble(const std::string& elf) {
  const TemporaryFile file(elf);
  std::istringstream listing(output_of(std::string(LATHE_OBJDUMP) + " -d " + file.path()));
  std::map<std::string, AmdCode> kernels;
  AmdCode* code = nullptr;
  int64_t start = 0;
  for (std::string line; std::getline(listing, line);) {
    const size_t name = line.find(" <");
    if (!line.empty() && line[0] == '0' && line.back() == ':' && name != std::string::npos) {
      start = std::stoll(line, nullptr, 16);
      code = &kernels[line.substr(name + 2, line.size() - name - 4)];
      continue;
    }
    AmdInstruction i;
    if (code != nullptr && parse_instruction(line, start, &i)) code->push_back(i);
  }
  return kernels;
}

bool is_matrix(const AmdInstruction& i) { return i.is("v_mfma_") || i.is("v_wmma_"); }

bool is_multiply_add(const AmdInstruction& i) {
  for (const char* name : {"v_fma_", "v_fmac_", "v_pk_fma_", "v_dual_fmac_", "v_dot", "v_mad_", "v_mul_lo_"})
    if (i.is(name)) return true;
  return contains(i.text, ":: v_dual_fmac_");
}

bool is_load(const AmdInstruction& i) {
  return i.is("global_load_") || i.is("buffer_load_") || i.is("flat_load_");
}

bool is_matrix_of(const AmdInstruction& i, const std::string& type) {
  if (!is_matrix(i)) return false;
  // The type follows the third size, as in "v_mfma_f32_16x16x16bf16_1k".
  std::string name = mnemonic(i);
  name = name.substr(name.rfind('x') + 1);
  name = name.substr(std::min(name.size(), name.find_first_not_of("0123456789")));
  if (!name.empty() && name[0] == '_') name = name.substr(1);
  const std::map<std::string, std::vector<std::string>> kNames = {
      {"f32", {"f32", "f32_e64"}},       {"f16", {"f16"}},
      {"bf16", {"bf16", "bf16_1k"}},     {"i8", {"i8", "iu8"}},
      {"f8e4m3", {"fp8_fp8", "f8f6f4"}}, {"f8e5m2", {"bf8_bf8", "f8f6f4"}},
      {"f8e4m3fnuz", {"fp8_fp8"}},       {"f8e5m2fnuz", {"bf8_bf8"}},
      {"mxf8e4m3", {"f8f6f4"}},          {"mxf8e5m2", {"f8f6f4"}},
      {"mxf4e2m1", {"f8f6f4"}},          {"f8e4m3_128", {"f8f6f4", "fp8_fp8"}}};
  const std::vector<std::string>& names = kNames.at(type);
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t lane_bytes(const AmdInstruction& i) {
  const std::string name = mnemonic(i);
  const int64_t twice = contains(name, "read2") || contains(name, "write2") || contains(name, "load_2addr") ||
                                contains(name, "store_2addr")
                            ? 2
                            : 1;
  for (const auto& [end, bytes] : {std::pair<const char*, int64_t>{"x4", 16},
                                   {"b128", 16},
                                   {"x3", 12},
                                   {"b96", 12},
                                   {"x2", 8},
                                   {"b64", 8},
                                   {"dword", 4},
                                   {"b32", 4},
                                   {"16", 2},
                                   {"short", 2},
                                   {"16_d16_hi", 2},
                                   {"short_d16", 2}})
    if (contains(name, end)) return bytes * twice;
  return 1;
}

AmdCode inner_loop(const AmdCode& kernel, const IsWork& is_work) {
  struct Loop {
    size_t first, last;
    int64_t work;
  };
  std::map<int64_t, size_t> place;
  std::vector<int64_t> work_before = {0};
  for (size_t i = 0; i < kernel.size(); ++i) {
    place[kernel[i].address] = i;
    work_before.push_back(work_before.back() + is_work(kernel[i]));
  }
  std::vector<Loop> loops;
  for (size_t i = 0; i < kernel.size(); ++i) {
    const auto first = place.find(kernel[i].target);
    if (kernel[i].target < 0 || first == place.end() || first->second >= i) continue;
    loops.push_back({first->second, i, work_before[i + 1] - work_before[first->second]});
  }
  const auto within = [](const Loop& a, const Loop& b) {
    return a.first >= b.first && a.last <= b.last && (a.first != b.first || a.last != b.last);
  };
  const Loop* best = nullptr;
  for (const Loop& l : loops) {
    const bool outer = std::any_of(loops.begin(), loops.end(),
                                   [&](const Loop& m) { return within(m, l) && 2 * m.work >= l.work; });
    if (!outer && l.work > 0 && (best == nullptr || l.work > best->work)) best = &l;
  }
  if (best == nullptr) return kernel;
  return AmdCode(kernel.begin() + static_cast<ptrdiff_t>(best->first),
                 kernel.begin() + static_cast<ptrdiff_t>(best->last) + 1);
}

LoopCounts count(const AmdCode& loop) {
  LoopCounts c;
  for (const AmdInstruction& i : loop) {
    ++c.all;
    if (is_matrix(i)) {
      ++c.matrix;
    } else if (i.is("ds_")) {
      ++c.shared;
      c.shared_bytes += lane_bytes(i);
      c.wide_shared_reads += (i.is("ds_read") || i.is("ds_load")) && lane_bytes(i) == 16;
    } else if (is_load(i)) {
      ++c.loads;
      c.load_bytes += lane_bytes(i);
      c.wide_loads += lane_bytes(i) == 16;
    } else if (i.is("global_") || i.is("buffer_") || i.is("flat_")) {
      ++c.stores;
    } else if (i.is("s_wait")) {
      ++c.waits;
    } else if (i.is("s_barrier")) {
      ++c.barriers;
    } else if (i.is("v_")) {
      ++c.vector;
      c.multiply_adds += is_multiply_add(i);
      c.quarter_rate += i.is("v_mul_lo_u32") || i.is("v_mul_hi_") || i.is("v_mad_u64_") || i.is("v_mad_co_");
      const bool twice = i.is("v_pk_fma_") || i.is("v_dot2") ||
                         (i.is("v_dual_fmac_") && contains(i.text, ":: v_dual_fmac_"));
      c.products += is_multiply_add(i) ? (i.is("v_dot4") ? 4 : twice ? 2 : 1) : 0;
    } else {
      ++c.scalar;
    }
  }
  c.in_flight = most_in_flight(loop);
  return c;
}

}  // namespace lathe
