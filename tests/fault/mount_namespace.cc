#include "mount_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lathe::fault {
namespace {

bool write_text(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) close(file);
  return written;
}

// Returns "" or the reason for the failure. In a user namespace that maps the user to itself, an ordinary
// user may mount; root may do so without one.
std::string make_namespace(const std::string& directory, const std::string& tmpfs_options) {
  const auto failed = [](const char* what) { return std::string(what) + ": " + strerror(errno); };
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) {
    if (!write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/uid_map", user + " " + user + " 1") ||
        !write_text("/proc/self/gid_map", group + " " + group + " 1"))
      return failed("a map of users");
  } else if (unshare(CLONE_NEWNS) != 0) {
    return failed("unshare");
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("mount --make-rprivate");
  if (mount("lathe-test", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, tmpfs_options.c_str()) != 0)
    return failed("mount");
  return "";
}

bool join(const std::string& path, int kind) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool joined = file >= 0 && setns(file, kind) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  errno = error;
  return joined;
}

}  // namespace

MountNamespace::MountNamespace(const std::string& directory, const std::string& tmpfs_options) {
  int made[2];
  if (pipe2(made, O_CLOEXEC) != 0) {
    refusal_ = strerror(errno);
    return;
  }
  holder_ = fork();
  if (holder_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string refusal = make_namespace(directory, tmpfs_options);
    (void)!write(made[1], refusal.data(), refusal.size());
    close(made[1]);
    for (;;) pause();
  }
  if (holder_ < 0) refusal_ = strerror(errno);
  close(made[1]);
  char text[256];
  for (ssize_t size; (size = read(made[0], text, sizeof text)) > 0;)
    refusal_.append(text, static_cast<size_t>(size));
  close(made[0]);
}

MountNamespace::~MountNamespace() {
  if (holder_ <= 0) return;
  kill(holder_, SIGKILL);
  waitpid(holder_, nullptr, 0);
}

bool MountNamespace::enter() const {
  const std::string spaces = "/proc/" + std::to_string(holder_) + "/ns/";
  // EINVAL: the holder is in the same user namespace.
  return (join(spaces + "user", CLONE_NEWUSER) || errno == EINVAL) && join(spaces + "mnt", CLONE_NEWNS);
}

bool MountNamespace::run(const std::function<bool()>& body) const {
  const pid_t child = fork();
  if (child == 0) _exit(enter() && body() ? 0 : 1);
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace lathe::fault
