// Code objects, their functions, and launches.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/gpu/emulator/hip/state.h"

using namespace lathe::emulator;
using namespace lathe::emulator::hip;

namespace {

// The ELF header. Its e_flags name the architecture of EM_AMDGPU machine code (LLVM's user guide for AMDGPU).
struct ElfHeader {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_offset, section_offset;
  uint32_t flags;
  uint16_t header_bytes, program_bytes, program_count, section_bytes, section_count, names;
};
static_assert(sizeof(ElfHeader) == 64);
constexpr uint16_t kAmdGpu = 224;
// EF_AMDGPU_MACH of an architecture and of the generic target that covers it (0 if there is none).
struct Machine {
  const char* arch;
  uint32_t own, generic;
};
constexpr Machine kMachines[] = {{"gfx90a", 0x03f, 0},      {"gfx942", 0x04c, 0x05f},
                                 {"gfx950", 0x04f, 0x05f},  {"gfx1100", 0x041, 0x054},
                                 {"gfx1200", 0x048, 0x059}, {"gfx1201", 0x04e, 0x059}};

// The two bits of a mode in e_flags: 1 any, 2 off, 3 on.
bool fits_mode(uint32_t bits, const std::string& isa, const char* mode) {
  if (bits < 2) return true;
  return isa.find(absl::StrCat(":", mode, bits == 3 ? "+" : "-")) != std::string::npos;
}

// Whether the board runs the code: it must be for the board's architecture or its generic target, and fit its modes.
// The flags are those of code object version 4 and later. Generic targets need version 6, which has ABI number 4.
bool runs_on(const ElfHeader& header, const Board& board) {
  constexpr unsigned char kAbiOfVersion6 = 4;
  const uint32_t number = header.flags & 0xFF;
  for (const Machine& machine : kMachines) {
    if (board.arch != absl::string_view(machine.arch)) continue;
    const bool generic = number == machine.generic && header.ident[8] >= kAbiOfVersion6;
    return (number == machine.own || generic) && fits_mode(header.flags >> 8 & 3, board.isa, "xnack") &&
           fits_mode(header.flags >> 10 & 3, board.isa, "sramecc");
  }
  return false;
}

// The size of the whole file: a code object ends with its section headers.
size_t bytes_of(const ElfHeader& header) {
  return header.section_offset + size_t{header.section_bytes} * header.section_count;
}

int write_file(const void* image, size_t bytes, std::string* path) {
  char name[] = "/tmp/lathe-hip-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) return kUnknown;
  *path = name;
  const bool written = write(file, image, bytes) == static_cast<ssize_t>(bytes);
  close(file);
  return written ? kSuccess : kUnknown;
}

int run(const std::string& request, const std::string& symbol) {
  State& state = State::get();
  const auto done = state.worker->ask(request);
  if (done.ok()) return kSuccess;
  std::fprintf(stderr, "hip emulator: %s: %s\n", symbol.c_str(),
               std::string(done.status().message()).c_str());
  // As on hardware: the launch is accepted, and later calls return the error.
  state.error = done.status().code() == absl::StatusCode::kAborted ? kIllegalAddress : kLaunchFailed;
  return kSuccess;
}

}  // namespace

EMU_API hipModuleLoadDataEx(Module** module, const void* image, unsigned, int*, void**) {
  EMU_ENTER_ALIVE();
  if (module == nullptr || image == nullptr) return kInvalidValue;
  ElfHeader header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.ident, "\177ELF\2", 5) != 0 || header.machine != kAmdGpu) return kInvalidImage;
  if (!runs_on(header, *state.board)) return kNoBinaryForGpu;
  std::string path;
  if (const int failed = write_file(image, bytes_of(header), &path); failed != 0) return failed;
  auto made = std::make_unique<Module>();
  made->number = state.next_module++;
  const auto answer = state.worker->ask(absl::StrCat("load ", made->number, " ", path));
  unlink(path.c_str());
  if (!answer.ok()) {
    std::fprintf(stderr, "hip emulator: %s\n", std::string(answer.status().message()).c_str());
    return kInvalidImage;
  }
  for (absl::string_view text : absl::StrSplit(*answer, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    Function function{made.get(), parts[0], 0, 0};
    if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &function.lds) ||
        !absl::SimpleAtoi(parts[2], &function.threads))
      return kInvalidImage;
    made->functions[parts[0]] = function;
  }
  state.modules.insert(made.get());
  *module = made.release();
  return kSuccess;
}

EMU_API hipModuleUnload(Module* module) {
  EMU_ENTER();
  if (state.modules.erase(module) == 0) return kInvalidHandle;
  state.worker->ask(absl::StrCat("unload ", module->number)).IgnoreError();
  delete module;
  return kSuccess;
}

EMU_API hipModuleGetFunction(Function** function, Module* module, const char* name) {
  EMU_ENTER();
  if (state.modules.count(module) == 0) return kInvalidHandle;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return kNotFound;
  *function = &found->second;
  return kSuccess;
}

EMU_API hipFuncGetAttribute(int* value, int attribute, Function* function) {
  EMU_ENTER();
  if (attribute > 1) return kNotSupported;
  *value = attribute == 0 ? function->threads : function->lds;
  return kSuccess;
}

EMU_API hipModuleLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                              void* stream, void** parameters, void** extra) {
  EMU_ENTER_ALIVE();
  if (!state.is_stream(stream) || parameters != nullptr || extra == nullptr) return kInvalidValue;
  if (uint64_t{grid_x} * block_x > UINT32_MAX) return 9;  // hipErrorInvalidConfiguration
  if (uint64_t{block_x} * block_y * block_z > static_cast<uint64_t>(function->threads)) return kLaunchFailed;
  if (function->lds + shared > static_cast<unsigned>(state.board->lds_bytes)) return kLaunchOutOfResources;
  const char* buffer = nullptr;
  size_t bytes = 0;
  for (void** e = extra; *e != nullptr; e += 2) {
    if (*e == reinterpret_cast<void*>(1)) buffer = static_cast<const char*>(e[1]);
    if (*e == reinterpret_cast<void*>(2)) bytes = *static_cast<size_t*>(e[1]);
  }
  if (buffer == nullptr) return kInvalidValue;
  // During a capture HIP copies a fixed number of entries of `extra`, in the order that the reference's example uses.
  const Stream* to = State::created(stream);
  if (to != nullptr && to->capture != nullptr &&
      (extra[0] != reinterpret_cast<void*>(1) || extra[2] != reinterpret_cast<void*>(2)))
    return kInvalidValue;
  std::string request =
      absl::StrCat("launch ", function->module->number, " ", function->symbol, " ",
                   absl::StrJoin({grid_x, grid_y, grid_z, block_x, block_y, block_z, shared}, " "), " ",
                   state.board->arch, " ", absl::BytesToHexString({buffer, bytes}));
  return state.enqueue(
      stream, [request = std::move(request), symbol = function->symbol] { return run(request, symbol); });
}
