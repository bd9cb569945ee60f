#include "compile_client/user_ukernels.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cache/file_io.h"
#include "cache/private_directory.h"
#include "cache/store_files.h"

namespace lathe {
namespace {

constexpr size_t kMostDescription = 64 << 10, kMostBitcode = 16 << 20;

// Reads a file of the directory. It is refused if another user could have written it.
absl::StatusOr<std::string> read_file(int directory, const std::string& name, size_t most) {
  const FileDescriptor file = open_file(directory, name, O_RDONLY | O_NOFOLLOW);
  struct stat s = {};
  if (!file.valid() || fstat(file.get(), &s) != 0)
    return absl::NotFoundError(absl::StrCat(name, " is missing: ", strerror(errno)));
  if (const std::string refusal = refusal_of(s); !refusal.empty())
    return absl::PermissionDeniedError(absl::StrCat(name, ": ", refusal));
  if (!S_ISREG(s.st_mode) || static_cast<uint64_t>(s.st_size) > most)
    return absl::DataLossError(absl::StrCat(name, " is not a file of at most ", most, " bytes"));
  std::string bytes(static_cast<size_t>(s.st_size), '\0');
  LATHE_RETURN_IF_ERROR(read_whole(file.get(), &bytes));
  return bytes;
}

absl::StatusOr<UserUkernel> read_ukernel(int directory, const std::string& description) {
  LATHE_ASSIGN_OR_RETURN(const std::string text, read_file(directory, description, kMostDescription));
  LATHE_ASSIGN_OR_RETURN(const Json json, parse_json(text, description));
  LATHE_ASSIGN_OR_RETURN(UserUkernel u, user_ukernel_from_json(json));
  if (u.name + ".json" != description)
    return absl::DataLossError(absl::StrCat(description, " describes a ukernel named ", u.name));
  absl::StatusOr<std::string> bitcode = read_file(directory, u.name + ".bc", kMostBitcode);
  if (!bitcode.ok())
    u.defect = absl::StrCat("ukernel ", u.name, ": ", bitcode.status().message());
  else if (bitcode_digest(*bitcode) != u.digest)
    u.defect = absl::StrCat("ukernel ", u.name, ": ", u.name, ".bc has changed since it was added: it is ",
                            bitcode_digest(*bitcode), ", not ", u.digest);
  else
    u.bitcode = *std::move(bitcode);
  return u;
}

std::vector<UserUkernel> read_directory(const std::string& path, const Logger& logger) {
  std::vector<UserUkernel> all;
  if (path.empty()) return all;
  const absl::StatusOr<FileDescriptor> directory = open_private_directory(path);
  if (!directory.ok()) {
    if (!absl::IsNotFound(directory.status()))
      logger.log(LogLevel::kWarning,
                 absl::StrCat("users' ukernels are not used: ", directory.status().message()));
    return all;
  }
  const absl::StatusOr<std::vector<std::string>> names = names_in(directory->get());
  if (!names.ok()) {
    logger.log(LogLevel::kWarning,
               absl::StrCat("users' ukernels are not used: ", path, ": ", names.status().message()));
    return all;
  }
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, ".json")) continue;
    absl::StatusOr<UserUkernel> u = read_ukernel(directory->get(), name);
    if (u.ok())
      all.push_back(*std::move(u));
    else
      logger.log(LogLevel::kWarning, absl::StrCat("ukernel ", path, "/", name, ": ", u.status().message()));
  }
  return all;
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

UserUkernels::UserUkernels(std::string directory, const Logger& logger)
    : directory_(without_slash(std::move(directory))),
      all_(std::make_shared<const std::vector<UserUkernel>>(read_directory(directory_, logger))) {}

std::shared_ptr<const std::vector<UserUkernel>> UserUkernels::all() const {
  const ForkSafeLock lock(mutex_);
  return all_;
}

std::string UserUkernels::bitcode_of(const UkernelRef& ukernel) const {
  const auto all = this->all();
  for (const UserUkernel& u : *all)
    if (u.bitcode_name() == ukernel.bitcode) return u.bitcode;
  return "";
}

absl::Status UserUkernels::add(UserUkernel ukernel, bool store) {
  if (store) {
    if (directory_.empty())
      return absl::UnavailableError(
          "there is no directory for ukernels: no cache directory is used and $LATHE_UKERNELS is unset");
    LATHE_ASSIGN_OR_RETURN(const FileDescriptor directory, make_private_directory(directory_));
    // The description is written last, since a ukernel without one is ignored.
    const std::pair<const char*, std::string> files[] = {{".bc", ukernel.bitcode},
                                                         {".json", canonical_text(to_json(ukernel))}};
    for (const auto& [ending, bytes] : files) {
      const std::string name = ukernel.name + ending;
      const absl::Status written =
          publish_file(directory.get(), ukernel.digest, name, bytes, Durability::kSynced);
      if (!written.ok())
        return absl::UnavailableError(absl::StrCat(directory_, "/", name, ": ", written.message()));
    }
  }
  const ForkSafeLock lock(mutex_);
  auto next = std::make_shared<std::vector<UserUkernel>>();
  for (const UserUkernel& u : *all_)
    if (u.name != ukernel.name) next->push_back(u);
  next->push_back(std::move(ukernel));
  all_ = std::move(next);
  return absl::OkStatus();
}

absl::Status UserUkernels::remove(absl::string_view name) {
  if (const std::string refusal = name_refusal(name); !refusal.empty())
    return absl::InvalidArgumentError(refusal);
  bool found = false;
  if (const auto directory = open_private_directory(directory_); !directory_.empty() && directory.ok())
    for (const char* ending : {".json", ".bc"})
      found |= unlinkat(directory->get(), absl::StrCat(name, ending).c_str(), 0) == 0;
  const ForkSafeLock lock(mutex_);
  auto next = std::make_shared<std::vector<UserUkernel>>();
  for (const UserUkernel& u : *all_)
    if (u.name != name) next->push_back(u);
  found |= next->size() != all_->size();
  all_ = std::move(next);
  return found ? absl::OkStatus() : absl::NotFoundError(absl::StrCat("there is no ukernel named ", name));
}

}  // namespace lathe
