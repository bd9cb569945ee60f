// Chooses the plan of a class on a device: the request's own choice, a tuning record, or the oracle. A plan
// record can then name a stored kernel that saves a compilation.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "core/key.h"
#include "dispatch/dispatch_table.h"
#include "oracle/oracle.h"

struct lathe_device;

namespace lathe {

struct Choice {
  OracleAnswer answer;  // with Ranking::kChoiceAlone it may hold the chosen plan only
  size_t rank = 0;      // index of the chosen plan in answer.ranked
  ChosenBy by = ChosenBy::kOracle;
  Key key;  // of the plan's artifact

  const Plan& plan() const { return answer.ranked[rank].plan; }
};

// The request's choice, or else the oracle's, with the whole ranking. Records are not considered.
// kUnimplemented: no candidate is legal. kInvalidArgument: the request forces a candidate that does not exist or
// is not legal; the message has the reason.
absl::StatusOr<Choice> choose_by_oracle(const lathe_device& device, const DispatchKey& key);

// As choose_by_oracle, but a tuning record of the class goes before the oracle. If the record names a candidate
// that is not legal today, it is ignored, with one warning per context. kChoiceAlone saves the ranking of the
// other candidates where nobody reads it.
enum class Ranking { kWhole, kChoiceAlone };
absl::StatusOr<Choice> choose_plan(const lathe_device& device, const DispatchKey& key,
                                   Ranking ranking = Ranking::kWhole);

// The choice that an entry of the dispatch table was made from, with the whole ranking.
absl::StatusOr<Choice> choice_of(const lathe_device& device, const DispatchEntry& entry);

// Makes candidate `rank` of the answer the chosen one.
void take_rank(const lathe_device& device, const DispatchKey& key, size_t rank, ChosenBy by, Choice* choice);

// Whether the plan exists because a user asked for it: a user's ukernel or an external library's routine. Plan
// records leave such plans alone, since users add and remove them on purpose.
bool is_asked_for(const lathe_device& device, const Choice& choice);

// The candidate that the class's plan record names, with its kernel in a store.
struct RecordedChoice {
  Choice choice;
  bool is_outdated;
};

// A plan record is outdated if another build of the oracle wrote it, or if its candidate is now predicted to be
// slower than the oracle's choice by more than this part.
constexpr double kRecordTolerance = 0.1;

// Nullopt if the record names the choice itself or a candidate that is not legal, if no store has the kernel,
// or if the oracle did not make the choice. Small differences in the facts of a device then do not cause
// compilations. Reads the record and the kernel from the stores, so call it only on a miss.
std::optional<RecordedChoice> find_recorded_choice(const lathe_device& device, const DispatchKey& key,
                                                   const Choice& choice);

}  // namespace lathe
