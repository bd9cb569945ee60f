// The kernels of one product for groups of any number of rows.
#pragma once

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "dispatch/device.h"
#include "request/request_grouped_matmul.h"

namespace lathe {

// One call's lookups. Each class is looked up once, so that it counts one miss at most.
class GroupKernels {
 public:
  GroupKernels(lathe_device& device, const Request& product) : device_(device), request_(product) {}

  // The kernel for `rows` rows; `uneven`: they are not all the same distance apart (kFewestListedRows). request() is that
  // product afterwards. On a miss its policy decides; a generic kernel reads no list.
  absl::StatusOr<const DispatchEntry*> find(int64_t rows, bool uneven);
  // As find(), for a group that runs on the kernel: counts a hit, unless the call counts a miss for it.
  absl::StatusOr<const DispatchEntry*> use(int64_t rows, bool uneven);
  const Request& request() const { return request_; }

 private:
  struct Known {
    Bucket bucket;
    Rows listed;
    const DispatchEntry* entry;
    bool missed;  // and no group has used it since
  };
  absl::StatusOr<Known*> known(int64_t rows, bool uneven);

  lathe_device& device_;
  Request request_;
  absl::InlinedVector<Known, 24> known_;
};

}  // namespace lathe
