// Keeps Lathe's descriptors away from standard input, output and error (0, 1 and 2).
#pragma once

namespace lathe {

// Returns the new descriptor `fd` if it is above 2, else replaces it by a duplicate above 2 with
// close-on-exec. If a daemon has closed its standard streams, its output would otherwise go into Lathe's file
// or socket. -1 if `fd` is -1 or there is no other descriptor (`fd` is then closed); errno has the reason.
int beyond_standard_streams(int fd);

// While it lives, every standard stream that was closed is /dev/null. For making sockets and pipes: even a
// byte that the host prints into one before it is moved would be read as Lathe's, or raise SIGPIPE.
class StandardStreamsFilled {
 public:
  StandardStreamsFilled();
  ~StandardStreamsFilled();
  StandardStreamsFilled(const StandardStreamsFilled&) = delete;
  StandardStreamsFilled& operator=(const StandardStreamsFilled&) = delete;

 private:
  int opened_[3];
  int count_ = 0;
};

}  // namespace lathe
