// Keeps Lathe's descriptors away from standard input, output and error (0, 1 and 2).
#pragma once

namespace lathe {

// Returns `fd` if it is above 2. Otherwise replaces it by a duplicate above 2 with close-on-exec and closes
// `fd`. Without this, the output of a daemon that closed its standard streams would go into Lathe's file or
// socket. Returns -1 if `fd` is -1 or no other descriptor is free; errno has the reason.
int beyond_standard_streams(int fd);

// While this object lives, every standard stream that was closed is /dev/null. Use it while making sockets
// and pipes: if one of them got number 1 even for a moment, the host's output could enter it.
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
