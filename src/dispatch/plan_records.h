// Records of tuning and plans (core/plan_record.h), applied to what the oracle answers: it stays pure, and
// what it does not hold legal no record brings about.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/log.h"
#include "core/plan_record.h"
#include "oracle/oracle.h"

struct lathe_device;

namespace lathe {

// A context's tuning file, read once.
class TuningRecords {
 public:
  // What is wrong with the file is a warning. `path` "": none.
  TuningRecords(const std::string& path, const Logger& logger);

  // Null when absent.
  const PlanRecord* find(const Key& key) const;
  // Of the records, whatever their order; 0 without any.
  uint64_t digest() const { return digest_; }

 private:
  std::map<std::string, PlanRecord> records_;  // by the text of the key
  uint64_t digest_ = 0;
};

// One of the class on the device, nothing chosen yet: what key_of() asks for is filled.
PlanRecord make_record(const lathe_device& device, RecordKind kind, const ProblemClass& problem);

// The class' tuning record: of the context's file, the cache directory or a bundle.
std::optional<PlanRecord> find_tuning(const lathe_device& device, const ProblemClass& problem);

// Which of the answer's candidates the record names, if it may take the first one's place: a legal one, above
// Determinism::kFast of the first one's numeric recipe.
std::optional<size_t> recorded_rank(const OracleAnswer& answer, const ProblemClass& problem,
                                    const PlanRecord& record);
// Whether a candidate may stand in for the answer's first without breaking what the class promises.
bool keeps_promise(const OracleAnswer& answer, const ProblemClass& problem, size_t rank);

}  // namespace lathe
