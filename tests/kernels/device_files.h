// Test data for the kernel families and the oracle: the shipped facts files and the layer shapes of real models.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/facts.h"
#include "core/problem.h"

namespace lathe {

// All shipped devices, in the order of their file names.
inline const std::vector<DeviceFacts>& shipped_facts() {
  static const std::vector<DeviceFacts> kFacts = [] {
    std::set<std::filesystem::path> paths;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(LATHE_SOURCE_DIR) + "/runtime/facts"))
      paths.insert(entry.path());
    std::vector<DeviceFacts> all;
    for (const std::filesystem::path& path : paths) {
      auto facts = load_facts(path.string());
      EXPECT_TRUE(facts.ok()) << facts.status();
      if (facts.ok()) all.push_back(*std::move(facts));
    }
    return all;
  }();
  return kFacts;
}

// The first shipped device with that target.
inline const DeviceFacts& shipped_facts(const std::string& target) {
  for (const DeviceFacts& f : shipped_facts())
    if (f.target == parse_target(target).value()) return f;
  ADD_FAILURE() << "no facts file for " << target;
  return shipped_facts().front();
}

struct Shape {
  std::string name;
  int64_t n, k;
};
inline std::vector<Shape> layer_shapes() {
  std::ifstream file(std::string(LATHE_SOURCE_DIR) + "/benchmarks/shapes.csv");
  std::vector<Shape> shapes;
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "model,layer,n,k");
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string model, layer, n, k;
    std::getline(fields, model, ',');
    std::getline(fields, layer, ',');
    std::getline(fields, n, ',');
    std::getline(fields, k, ',');
    shapes.push_back({model + "/" + layer, std::stoll(n), std::stoll(k)});
  }
  return shapes;
}

inline ProblemClass matmul_class(DType in, DType out, int64_t n, int64_t k, const Bucket& m) {
  ProblemClass c;
  c.a = c.b = in;
  c.d = out;
  c.n = n;
  c.k = k;
  c.m_lo = m.lo;
  c.m_hi = m.hi;
  return c;
}

inline ProblemClass argmax_class(DType in, const Bucket& row) {
  ProblemClass c;
  c.op = Op::kArgmax;
  c.a = in;
  c.d = DType::kI64;
  c.row_lo = row.lo;
  c.row_hi = row.hi;
  return c;
}

}  // namespace lathe
