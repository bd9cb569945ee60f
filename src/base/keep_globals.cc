// Linked into each shared library, and into no program. Drops the registration of destructors of global objects: a host
// may call exit() while a thread of Lathe compiles or links, and exit() would destroy LLVM's globals under that thread.
// The libraries' version scripts hide the function from the host.
extern "C" int __cxa_atexit(void (*)(void*), void*, void*) noexcept { return 0; }
