// The routing of a grouped product: which slots belong to which group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "request/request_grouped_matmul.h"

namespace lathe {

// The slots of one group: slot_of[first] to slot_of[first + count - 1], or, without slot_of, first and so on.
struct RoutedGroup {
  int32_t group;
  int32_t count;  // at least 1
  int64_t first;
};
struct Routing {
  RoutedGroup* groups;  // those that have slots, in ascending order, in memory for twice as many
  int64_t count;
  const int32_t* slot_of;  // null: the slots of a group follow each other

  int64_t slot(const RoutedGroup& g, int64_t i) const {
    return slot_of == nullptr ? g.first + i : slot_of[g.first + i];
  }
};

// Bytes of memory that route() needs.
size_t routing_bytes(const GroupedRequest& request);
// Reads and checks the routing. `memory` is aligned to 8 bytes. kInvalidArgument names the element that is wrong. Takes
// time linear in slots and groups.
absl::Status route(const GroupedRequest& request, char* memory, Routing* out);

}  // namespace lathe
