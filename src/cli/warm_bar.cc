#include "cli/warm_bar.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/session.h"

namespace lathe::cli {
namespace {

volatile int32_t interrupted = 0;

// The first Ctrl-C asks for an end. The second one has its default action.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_;
};

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
  return absl::StrFormat("%d:%02d", s / 60, s % 60);
}

// "12.5/s, 0:05 left", with `separator` before each part; "" until a rate is known.
std::string rate_text(uint64_t done, uint64_t total, double seconds, const char* separator) {
  if (done == 0 || seconds <= 0) return "";
  const double rate = static_cast<double>(done) / seconds;
  return absl::StrFormat("%s%.1f/s%s%s left", separator, rate, separator,
                         clock_text(static_cast<double>(total - done) / rate));
}

int terminal_columns() {
  struct winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

struct Display {
  bool terminal = isatty(STDERR_FILENO) != 0;
  double last = -1e9;  // the time of the last output, in seconds

  void clear() const {
    if (terminal) std::fputs("\r\033[K", stderr);
  }
  void show(const lathe_warmup_progress& p) {
    if (p.status != LATHE_OK) {
      clear();
      std::fprintf(stderr, "%s%s%s: %s: %s\n", p.name, *p.name != 0 ? ": " : "", p.problem,
                   lathe_status_name(p.status), p.error);
    }
    // A bar is redrawn ten times a second. Lines go to logs, so they are rarer.
    if (p.seconds - last < (terminal ? 0.1 : 2.0) && p.done < p.total) return;
    last = p.seconds;
    const std::string what = *p.name != 0 ? p.name : p.problem;
    if (terminal) {
      std::fprintf(stderr, "\r\033[K%s",
                   bar_text(p.done, p.total, p.seconds, what, terminal_columns() - 1).c_str());
    } else {
      std::fprintf(stderr, "%s\n", progress_line(p.done, p.total, p.seconds, p.problem).c_str());
    }
    std::fflush(stderr);
  }
};

}  // namespace

std::string bar_text(uint64_t done, uint64_t total, double seconds, const std::string& what, int columns) {
  constexpr uint64_t kWidth = 24;
  const uint64_t full = total == 0 ? kWidth : kWidth * done / total;
  const std::string text = absl::StrCat("[", std::string(full, '#'), std::string(kWidth - full, '.'), "]  ",
                                        done, "/", total, rate_text(done, total, seconds, "  "), "  ", what);
  return text.substr(0, static_cast<size_t>(std::max(columns, 1)));
}

std::string progress_line(uint64_t done, uint64_t total, double seconds, const std::string& what) {
  return absl::StrCat(done, " of ", total, rate_text(done, total, seconds, ", "), ": ", what);
}

absl::Status run_with_bar(lathe_warmup_options options,
                          absl::FunctionRef<absl::Status(const lathe_warmup_options&)> run) {
  const InterruptGuard guard;
  Display display;
  options.cancel = &interrupted;
  options.progress_user = &display;
  options.progress = [](void* user, const lathe_warmup_progress* p) -> int32_t {
    static_cast<Display*>(user)->show(*p);
    return 0;
  };
  const absl::Status status = run(options);
  display.clear();
  return status;
}

}  // namespace lathe::cli
