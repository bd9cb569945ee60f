// The floating-point exception flags of this thread.
#pragma once

#include <cfenv>

namespace lathe_blas {

// Restores the flags at its end. NumPy reads them after a product and warns of a division by zero, which the choice of
// a kernel may raise but a product never does.
class KeepExceptionFlags {
 public:
  KeepExceptionFlags() { std::fegetexceptflag(&flags_, FE_ALL_EXCEPT); }
  ~KeepExceptionFlags() { std::fesetexceptflag(&flags_, FE_ALL_EXCEPT); }
  KeepExceptionFlags(const KeepExceptionFlags&) = delete;
  KeepExceptionFlags& operator=(const KeepExceptionFlags&) = delete;

 private:
  std::fexcept_t flags_;
};

}  // namespace lathe_blas
