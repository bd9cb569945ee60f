// A manifest lists the problem classes that a process needs. It is a text file that people can read, that
// Lathe writes, and that a warm-up takes as its input.
//
//   {
//    "lathe_manifest": 1,                                  the format's version
//    "about": {"model": "llama3-8b", "tp": "1"},           optional notes for people; no effect
//    "classes": [
//     {"a":"bf16","b":"bf16","d":"bf16","k":4096,"m_max":8192,"n":6144,"name":"qkv","op":"matmul","trans_b":1},
//     {"a":"bf16","b":"bf16","d":"bf16","k":4096,"m_hi":32,"m_lo":17,"n":6144,"op":"matmul","trans_b":1}
//    ],
//    "digest": "6c1f0a5f9b3e2d47"                          optional: hash of everything else
//   }
//
// Lathe always writes the digest. A manifest with a wrong digest is refused as damaged, so delete that line
// after a change by hand.
//
// An entry has the fields of a class's JSON (core/problem.h) except "generic". Absent fields have their
// defaults: "none", 0, "fast", "strict".
//   - With "m_max" the entry is a weight: all its classes with M from 1 to m_max, in every alignment
//     (argmax: all row lengths). A warm-up on any device can use it.
//   - Without "m_max" the entry is exactly one class, as recorded on one device.
// The entry of a grouped product may say how large its calls are: "groups", "slots" (rows of D for each of M) and
// "kept" (columns of f32 that a GPU keeps for each slot, beside the class's own workspace).
// The entry of an elementwise op has its program in "text"; "program" is the digest of that text. "split_k"
// and "candidate" have the meaning of lathe_tuning's fields. "k": 0 is legal.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/elementwise.h"
#include "core/problem.h"

namespace lathe {

// The launch memory of a grouped product on a GPU: that of its class's workspace for slots * M rows in `groups` groups,
// and `kept` columns of f32 for each row. The device shares it among all classes of a warm-up.
struct GroupedSizes {
  int64_t groups = 0;  // 0: unknown, or no grouped product
  int64_t slots = 0, kept = 0;

  bool operator==(const GroupedSizes& o) const {
    return groups == o.groups && slots == o.slots && kept == o.kept;
  }
};

struct ManifestEntry {
  std::string name;  // for people: "llama3-8b qkv"
  ProblemClass problem;
  int64_t m_max = 0;  // 0: exactly this class
  int32_t split_k = 0, candidate = 0;
  std::shared_ptr<const ElementwiseProgram> program;  // null unless the op is elementwise
  GroupedSizes grouped = {};

  // Ignores the name. The program is compared through its digest in the class.
  bool operator==(const ManifestEntry& o) const {
    return problem == o.problem && m_max == o.m_max && split_k == o.split_k && candidate == o.candidate &&
           grouped == o.grouped;
  }
};

struct Manifest {
  std::map<std::string, std::string> about;
  std::vector<ManifestEntry> entries;

  // Appends the entries that are not present yet. A present entry keeps its name.
  void add(const ManifestEntry& entry);
  void add(const Manifest& other);
};

// kInvalidArgument if no request can have this class. The message names the field and the defect.
absl::Status check_class(const ProblemClass& c);

// Accepts any bytes as input. kInvalidArgument names the line and column of a JSON syntax error, or the entry
// and the field that is wrong.
absl::StatusOr<Manifest> parse_manifest(absl::string_view text);
// The text of a manifest, one entry per line, with its digest. parse_manifest reads it back.
std::string manifest_text(const Manifest& manifest);
// The line of one entry.
std::string manifest_line(const ManifestEntry& entry);

}  // namespace lathe
