#include "expert_shapes.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lathe::bench {
namespace {

constexpr char kColumns[] = "model,layer,n,k,experts,used,input";
constexpr int64_t kMost = int64_t{1} << 20;

bool parse(const std::string& line, ExpertsShape* shape) {
  const Strings fields = absl::StrSplit(line, ',');
  if (fields.size() != 7) return false;
  shape->model = fields[0];
  shape->name = fields[0] + "/" + fields[1];
  shape->shares_a = fields[6] == "shared";
  const auto is_count = [](const std::string& text, int64_t* count) {
    return absl::SimpleAtoi(text, count) && *count >= 1 && *count <= kMost;
  };
  return is_count(fields[2], &shape->n) && is_count(fields[3], &shape->k) &&
         is_count(fields[4], &shape->experts) && is_count(fields[5], &shape->used) &&
         shape->used <= shape->experts && (shape->shares_a || fields[6] == "own");
}

}  // namespace

std::vector<ExpertsShape> experts_of(const TextFlag& file, const ListFlag& models, const TextFlag& weight) {
  const std::string path = absl::GetFlag(file), only = absl::GetFlag(weight);
  std::ifstream lines(path);
  if (!lines) refuse(file, path, "not a readable file");
  std::vector<ExpertsShape> shapes;
  Strings known = {"all"};
  std::string line;
  while (std::getline(lines, line)) {
    absl::StripAsciiWhitespace(&line);
    if (line.empty() || line == kColumns) continue;
    ExpertsShape shape;
    if (!parse(line, &shape)) refuse(file, path, absl::StrCat("'", line, "' is not ", kColumns));
    if (known.back() != shape.model) known.push_back(shape.model);
    shapes.push_back(std::move(shape));
  }
  const Strings wanted = names_of(models, known);
  const auto wants = [&](const std::string& name) {
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  const auto is_other = [&](const ExpertsShape& shape) {
    return (!wants("all") && !wants(shape.model)) || (!only.empty() && shape.name != only);
  };
  shapes.erase(std::remove_if(shapes.begin(), shapes.end(), is_other), shapes.end());
  if (shapes.empty()) refuse(weight, only, "no weight of the named models");
  return shapes;
}

Routings::Routings(const ExpertsShape& shape, int64_t m, uint64_t seed) {
  const auto experts = static_cast<size_t>(shape.experts), used = static_cast<size_t>(shape.used);
  const size_t slots = static_cast<size_t>(m) * used;
  std::mt19937_64 engine(seed);
  std::vector<int32_t> order(experts), names(experts), base;
  std::iota(order.begin(), order.end(), 0);
  names = order;
  std::shuffle(names.begin(), names.end(), engine);
  // The first token has the experts 0 to used - 1, so the turns below reach all of them.
  while (base.size() < slots) {
    base.insert(base.end(), order.begin(), order.begin() + shape.used);
    std::shuffle(order.begin(), order.end(), engine);
  }
  const size_t stride = (slots + 15) / 16 * 16, count = (experts + used - 1) / used;
  memory_ = allocate_huge(stride * count * sizeof(int32_t));
  for (size_t r = 0; r < count; ++r) {
    int32_t* const routing = reinterpret_cast<int32_t*>(memory_.get()) + r * stride;
    for (size_t s = 0; s < slots; ++s)
      routing[s] = names[(static_cast<size_t>(base[s]) + r * used) % experts];
    const std::set<int32_t> distinct(routing, routing + slots);
    all_.push_back(routing);
    experts_.emplace_back(distinct.begin(), distinct.end());
  }
}

}  // namespace lathe::bench
