// Descriptors of Lathe's own, out of the way of standard input, output and error.
#pragma once

namespace lathe {

// `fd`, fresh from the system, or a duplicate above 2 with close-on-exec set in its place. A daemon may have
// closed its standard streams; what its other threads print would then go into Lathe's file or socket. -1 for
// -1, and where there is no other descriptor (`fd` is then closed); errno says why.
int beyond_standard_streams(int fd);
// Both ends of a fresh pipe or pair of sockets. False: errno says why, and both are closed and -1.
bool beyond_standard_streams(int (&ends)[2]);

}  // namespace lathe
