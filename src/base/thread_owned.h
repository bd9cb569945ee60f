// An object for each thread. The language's own (thread_local, with a destructor) registers with glibc, which
// ends the process where it has no memory for that.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace lathe {

// This thread's T, made when it is first asked for, deleted when the thread ends. Null: there is no memory
// for it.
template <typename T>
T* of_this_thread() noexcept {
  static thread_local T* mine = nullptr;
  if (__builtin_expect(mine != nullptr, 1)) return mine;
  struct Key {
    Key()
        : made(pthread_key_create(&key, [](void* ended) {
                 mine = nullptr;
                 delete static_cast<T*>(ended);
               }) == 0) {}
    ~Key() {
      // Where the library is unloaded: what other threads still own then is lost, and nothing is called.
      if (made) pthread_key_delete(key);
    }
    pthread_key_t key{};
    bool made;
  };
  static const Key key;
  std::unique_ptr<T> fresh(new (std::nothrow) T());
  if (fresh == nullptr || !key.made || pthread_setspecific(key.key, fresh.get()) != 0) return nullptr;
  return mine = fresh.release();
}

}  // namespace lathe
