// Tuning records and plan records (core/plan_record.h), applied to the oracle's answer. A record can only
// choose among the oracle's legal candidates.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/log.h"
#include "core/plan_record.h"
#include "oracle/oracle.h"

struct lathe_device;

namespace lathe {

// The tuning records of a context's tuning file, which is read once.
class TuningRecords {
 public:
  // A file that cannot be read and records that are damaged are logged as warnings. `path` "": no file.
  TuningRecords(const std::string& path, const Logger& logger);

  // Null if there is none with this key.
  const PlanRecord* find(const Key& key) const;
  // Independent of the order of the records. 0 if there are none.
  uint64_t digest() const { return digest_; }

 private:
  std::map<std::string, PlanRecord> records_;  // by key text
  uint64_t digest_ = 0;
};

// A record of the class on the device without a choice. It has all fields that key_of() reads.
PlanRecord make_record(const lathe_device& device, RecordKind kind, const ProblemClass& problem);

// The class's tuning record from the context's tuning file, else from the cache.
std::optional<PlanRecord> find_tuning(const lathe_device& device, const ProblemClass& problem);

// The rank of the candidate that the record names. Nullopt if it is not legal or does not keep the promise.
std::optional<size_t> recorded_rank(const OracleAnswer& answer, const ProblemClass& problem,
                                    const PlanRecord& record);
// Whether a candidate may replace the first one. If the class asks for more than Determinism::kFast, the
// numeric recipes must be the same.
bool keeps_promise(const OracleAnswer& answer, const ProblemClass& problem, size_t rank);

}  // namespace lathe
