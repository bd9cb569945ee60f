// One object per thread. A thread_local object with a destructor would not do: glibc ends the process if it
// has no memory to register the destructor.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace lathe {

// Returns this thread's T. It is created at the first call and deleted when the thread ends. Null if there is
// no memory for it.
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
      // Runs when the library is unloaded. The objects of other threads leak, but no code is called later.
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
