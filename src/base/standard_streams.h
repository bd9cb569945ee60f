// Keeps Lathe's descriptors away from standard input, output and error (0, 1 and 2).
#pragma once

namespace lathe {

// Returns the new descriptor `fd` if it is above 2, else replaces it by a duplicate above 2 with
// close-on-exec. If a daemon has closed its standard streams, its output would otherwise go into Lathe's file
// or socket. -1 if `fd` is -1 or there is no other descriptor (`fd` is then closed); errno has the reason.
int beyond_standard_streams(int fd);
// The same for both ends of a new pipe or socket pair. False: both are closed and -1; errno has the reason.
bool beyond_standard_streams(int (&ends)[2]);

}  // namespace lathe
