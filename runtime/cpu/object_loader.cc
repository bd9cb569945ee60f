#include "runtime/cpu/object_loader.h"

#include <llvm/ExecutionEngine/JITLink/ELF.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/LinkGraphLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/TaskDispatch.h>
#include <llvm/Support/ErrorHandling.h>

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/cpu/code_memory.h"

namespace lathe {
namespace {

using llvm::jitlink::LinkGraph;

absl::Status refusal(absl::string_view cause) {
  return absl::InvalidArgumentError(absl::StrCat("cpu: cannot link kernel object: ", cause));
}

absl::Status refusal(llvm::Error error) { return refusal(llvm::toString(std::move(error))); }

// Symbols that the linker itself defines while it links.
bool defined_by_linker(llvm::StringRef name) { return name == "_GLOBAL_OFFSET_TABLE_"; }

absl::Status check_graph(LinkGraph& graph, const llvm::Triple& host) {
  if (graph.getTargetTriple().getArch() != host.getArch()) {
    return refusal(absl::StrCat("it is for ", graph.getTargetTriple().getArchName().str(),
                                ", this device is ", host.getArchName().str()));
  }
  std::string undefined;
  for (llvm::jitlink::Symbol* symbol : graph.external_symbols()) {
    const llvm::StringRef name = symbol->hasName() ? *symbol->getName() : llvm::StringRef("(unnamed)");
    if (!defined_by_linker(name)) absl::StrAppend(&undefined, undefined.empty() ? "" : ", ", name.str());
  }
  if (!undefined.empty()) return refusal(absl::StrCat("undefined symbol ", undefined));
  return absl::OkStatus();
}

// Checked before linking, because a failed lookup is less precise, and a data symbol would be called as code.
absl::Status check_wanted(LinkGraph& graph, const std::vector<std::string>& symbols) {
  for (const std::string& wanted : symbols) {
    bool found = false;
    for (llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
      if (!symbol->hasName() || *symbol->getName() != llvm::StringRef(wanted)) continue;
      if (symbol->getScope() == llvm::jitlink::Scope::Local) continue;
      if (!symbol->isCallable()) return refusal(absl::StrCat("symbol ", wanted, " is not a function"));
      found = true;
    }
    if (!found) return refusal(absl::StrCat("symbol ", wanted, " is missing"));
  }
  return absl::OkStatus();
}

// Writes the perf map lines of each graph when its addresses are final.
class Mapping final : public llvm::orc::LinkGraphLinkingLayer::Plugin {
 public:
  explicit Mapping(const PerfMap& map) : map_(map) {}

  void modifyPassConfig(llvm::orc::MaterializationResponsibility&, LinkGraph&,
                        llvm::jitlink::PassConfiguration& passes) override {
    passes.PostFixupPasses.push_back([this](LinkGraph& graph) {
      std::vector<PerfMap::Code> codes;
      for (const llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
        if (symbol->hasName() && symbol->isCallable() && symbol->getSize() > 0)
          codes.push_back({symbol->getAddress().getValue(), symbol->getSize(), (*symbol->getName()).str()});
      }
      map_.add(codes);
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(llvm::orc::MaterializationResponsibility&) override {
    return llvm::Error::success();
  }
  llvm::Error notifyRemovingResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey) override {
    return llvm::Error::success();
  }
  void notifyTransferringResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey,
                                   llvm::orc::ResourceKey) override {}

 private:
  const PerfMap& map_;
};

// LLVM ends the process when its own containers run out of memory, unless this handler is installed.
void throw_bad_alloc(void*, const char*, bool) { throw std::bad_alloc(); }

}  // namespace

struct ObjectLoader::Session {
  // `code` is the memory manager of `process`.
  Session(std::unique_ptr<llvm::orc::ExecutorProcessControl> process, CodeMemory* code,
          const std::optional<PerfMap>& map)
      : execution(std::move(process)), memory(code), layer(execution) {
    if (map.has_value()) layer.addPlugin(std::make_shared<Mapping>(*map));
    // A lookup reports only that it failed. The cause is reported here; by default LLVM prints it to stderr.
    execution.setErrorReporter([this](llvm::Error error) { note(std::move(error)); });
  }

  void note(llvm::Error error) {
    if (error) absl::StrAppend(&causes, causes.empty() ? "" : "; ", llvm::toString(std::move(error)));
  }
  // The status of a link that failed with `error`, with all causes noted so far.
  absl::Status failure(llvm::Error error) {
    note(std::move(error));
    const std::string text = std::exchange(causes, "");
    const absl::Status of_memory = memory->take_failure();
    if (of_memory.ok()) return refusal(text);
    return absl::Status(of_memory.code(), absl::StrCat("cpu: cannot load the kernel: ", of_memory.message()));
  }

  std::string causes;  // of the link in progress
  llvm::orc::ExecutionSession execution;
  CodeMemory* memory;
  llvm::orc::LinkGraphLinkingLayer layer;
  uint64_t kernels = 0;
  std::unique_ptr<Session> next;
};

ObjectLoader::ObjectLoader(std::optional<PerfMap> map) : map_(std::move(map)) {
  static const bool once = (llvm::install_bad_alloc_error_handler(throw_bad_alloc), true);
  (void)once;
}

ObjectLoader::~ObjectLoader() {
  while (idle_ != nullptr) {
    std::unique_ptr<Session> session = std::move(idle_);
    idle_ = std::move(session->next);
    try {
      llvm::consumeError(session->execution.endSession());
    } catch (const std::bad_alloc&) {
      (void)session.release();  // leaked, because it has not ended
    }
  }
}

absl::StatusOr<std::unique_ptr<ObjectLoader::Session>> ObjectLoader::take() {
  {
    const ForkSafeLock lock(mutex_);
    if (idle_ != nullptr) {
      std::unique_ptr<Session> session = std::move(idle_);
      idle_ = std::move(session->next);
      return session;
    }
  }
  // In place: linking runs on the calling thread, and no LLVM thread outlives a load.
  auto memory = std::make_unique<CodeMemory>();
  CodeMemory* const code = memory.get();
  auto process = llvm::orc::SelfExecutorProcessControl::Create(
      nullptr, std::make_unique<llvm::orc::InPlaceTaskDispatcher>(), std::move(memory));
  if (!process) {
    return absl::InternalError(
        absl::StrCat("cpu: no linking session: ", llvm::toString(process.takeError())));
  }
  return std::make_unique<Session>(std::move(*process), code, map_);
}

absl::StatusOr<std::vector<void*>> ObjectLoader::link(absl::string_view object,
                                                      const std::vector<std::string>& symbols) {
  auto taken = take();
  if (!taken.ok()) return taken.status();
  std::unique_ptr<Session> session = *std::move(taken);
  try {
    auto addresses = link_in(*session, object, symbols);
    const ForkSafeLock lock(mutex_);
    session->next = std::move(idle_);
    idle_ = std::move(session);
    return addresses;
  } catch (...) {
    (void)session.release();
    throw;
  }
}

absl::StatusOr<std::vector<void*>> ObjectLoader::link_in(Session& session, absl::string_view object,
                                                         const std::vector<std::string>& symbols) {
  llvm::orc::ExecutionSession& execution = session.execution;

  const std::string name = absl::StrCat("kernel-", session.kernels++);
  auto graph = llvm::jitlink::createLinkGraphFromELFObject(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), name),
      execution.getSymbolStringPool());
  if (!graph) return refusal(graph.takeError());
  if (absl::Status status = check_graph(**graph, execution.getTargetTriple()); !status.ok()) return status;
  if (absl::Status status = check_wanted(**graph, symbols); !status.ok()) return status;

  llvm::orc::JITDylib& library = execution.createBareJITDylib(name);
  llvm::orc::SymbolLookupSet wanted;
  for (const std::string& symbol : symbols) wanted.add(execution.intern(symbol));
  // Two steps may use one symbol, but a lookup must have each only once.
  wanted.sortByAddress();
  wanted.removeDuplicates();

  if (llvm::Error error = session.layer.add(library, std::move(*graph))) {
    session.note(execution.removeJITDylib(library));
    return session.failure(std::move(error));
  }
  auto found =
      execution.lookup({{&library, llvm::orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
  if (!found) {
    session.note(execution.removeJITDylib(library));
    return session.failure(found.takeError());
  }
  std::vector<void*> addresses;
  addresses.reserve(symbols.size());
  for (const std::string& symbol : symbols) {
    addresses.push_back((*found)[execution.intern(symbol)].getAddress().toPtr<void*>());
  }
  return addresses;
}

}  // namespace lathe
