#include "base/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/standard_streams.h"

namespace lathe {
namespace {

struct File {
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  int descriptor;
};

}  // namespace

std::optional<std::string> read_small_file(const std::string& path, size_t most) {
  const File file = {beyond_standard_streams(open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  if (file.descriptor < 0 && errno == ENOMEM) throw std::bad_alloc();
  if (file.descriptor < 0) return std::nullopt;
  std::string text;
  for (;;) {
    char piece[4096];
    const ssize_t got = read(file.descriptor, piece, sizeof(piece));
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || text.size() + static_cast<size_t>(got) > most) return std::nullopt;
    text.append(piece, static_cast<size_t>(got));
  }
}

}  // namespace lathe
