// Says whether this process runs with more rights than its caller, and which cache directory a context takes
// then.
#include <lathe/lathe.h>
#include <sys/auxv.h>

#include <cstdio>
#include <string>

int main() {
  lathe_context* context = nullptr;
  if (lathe_context_create(nullptr, &context) != LATHE_OK) {
    std::printf("%s\n", lathe_last_error());
    return 1;
  }
  std::string list;
  const auto append = [](void* user, const char*, const char* text, size_t size) {
    static_cast<std::string*>(user)->append(text, size);
  };
  lathe_cache_list(context, append, &list);
  lathe_context_destroy(context);
  std::printf("secure=%d %s\n", getauxval(AT_SECURE) != 0, list.c_str());
  return 0;
}
