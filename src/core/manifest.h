// A manifest: the problem classes that a process needs, as a text that people read, programs write and
// warm-ups take.
//
//   {
//    "lathe_manifest": 1,                                  the format's version
//    "about": {"model": "llama3-8b", "tp": "1"},           optional: text for readers, of no effect
//    "classes": [
//     {"a":"bf16","b":"bf16","d":"bf16","k":4096,"m_max":8192,"n":6144,"name":"qkv","op":"matmul","trans_b":1},
//     {"a":"bf16","b":"bf16","d":"bf16","k":4096,"m_hi":32,"m_lo":17,"n":6144,"op":"matmul","trans_b":1}
//    ],
//    "digest": "6c1f0a5f9b3e2d47"                          of all the rest; in what Lathe writes
//   }
//
// A text whose digest is not its own has been damaged, and is refused; whoever changes one by hand takes that
// line out.
//
// An entry has the fields of a class's JSON (core/problem.h) but "generic"; what is left out is "none", 0,
// "fast", "strict". With "m_max" it is a weight: every class of it with M from 1 to that, in every alignment,
// which is what a warm-up of any device takes (argmax: every row length). Without, it is that one class, as
// one device met it. An elementwise op's has its program as "text", of which "program" is the digest.
// "split_k" and "candidate" are a lathe_tuning's. "k": 0 is legal: what a device needs for it is the device's
// matter.
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

struct ManifestEntry {
  std::string name;  // for people: "llama3-8b qkv"
  ProblemClass problem;
  int64_t m_max = 0;  // 0: that class alone
  int32_t split_k = 0, candidate = 0;
  std::shared_ptr<const ElementwiseProgram> program;  // null: of another op

  // Names apart; the class says which program it is.
  bool operator==(const ManifestEntry& o) const {
    return problem == o.problem && m_max == o.m_max && split_k == o.split_k && candidate == o.candidate;
  }
};

struct Manifest {
  std::map<std::string, std::string> about;
  std::vector<ManifestEntry> entries;

  // Appends what is not there yet; the first name stays.
  void add(const ManifestEntry& entry);
  void add(const Manifest& other);
};

// kInvalidArgument where a request could not be of this class: the field, and what is wrong with it.
absl::Status check_class(const ProblemClass& c);

// Of any bytes: kInvalidArgument says the line and column of what is no JSON, or the entry and field of what
// is wrong.
absl::StatusOr<Manifest> parse_manifest(absl::string_view text);
// One entry a line; parse_manifest reads it back.
std::string manifest_text(const Manifest& manifest);
// An entry's line.
std::string manifest_line(const ManifestEntry& entry);

}  // namespace lathe
