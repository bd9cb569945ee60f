#include "shapes.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lathe::bench {
namespace {

constexpr char kColumns[] = "model,layer,n,k";
constexpr int64_t kMostOfSide = int64_t{1} << 28;  // a weight's size in bytes fits an int64_t

struct Weight {
  std::string model;
  Shape shape;
};

bool parse(const std::string& line, Weight* weight) {
  const Strings fields = absl::StrSplit(line, ',');
  if (fields.size() != 4) return false;
  weight->model = fields[0];
  Shape& shape = weight->shape;
  shape.name = fields[0] + "/" + fields[1];
  const auto is_side = [](const std::string& text, int64_t* side) {
    return absl::SimpleAtoi(text, side) && *side >= 1 && *side <= kMostOfSide;
  };
  return is_side(fields[2], &shape.n) && is_side(fields[3], &shape.k);
}

std::vector<Weight> weights_of(const TextFlag& flag) {
  const std::string path = absl::GetFlag(flag);
  std::ifstream file(path);
  if (!file) refuse(flag, path, "not a readable file");
  std::vector<Weight> weights;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    absl::StripAsciiWhitespace(&line);
    if (line.empty() || line[0] == '#' || line == kColumns) continue;
    Weight weight;
    if (!parse(line, &weight))
      refuse(flag, path,
             absl::StrCat("not a file of weights: line ", number, ", '", line, "', is not ", kColumns));
    weights.push_back(std::move(weight));
  }
  if (weights.empty()) refuse(flag, path, absl::StrCat("not a file of weights: it has no line ", kColumns));
  return weights;
}

}  // namespace

std::vector<Shape> shapes_of(const TextFlag& file, const ListFlag& models) {
  const std::vector<Weight> weights = weights_of(file);
  Strings known = {"all"};
  for (const Weight& weight : weights)
    if (known.back() != weight.model) known.push_back(weight.model);
  const Strings wanted = names_of(models, known);
  const auto wants = [&](const std::string& model) {
    return std::find(wanted.begin(), wanted.end(), model) != wanted.end();
  };
  std::vector<Shape> shapes;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const Weight& weight : weights) {
    if (!wants("all") && !wants(weight.model)) continue;
    if (seen.insert({weight.shape.n, weight.shape.k}).second) shapes.push_back(weight.shape);
  }
  return shapes;
}

}  // namespace lathe::bench
