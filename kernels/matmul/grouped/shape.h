// What the recipe of a grouped product and its emitters agree on: the parts of the workspace, in words of 4 bytes.
//
// The first word is the number of tiles. Then come: a counter per group, the list of slots by group, the products of
// the slots in f32 (if they are summed), the tiles. Each part begins at a multiple of kAlignedWords.
#pragma once

#include "core/problem.h"
#include "core/recipe.h"

namespace lathe {

struct GroupedWorkspace {
  static constexpr int64_t kAlignedWords = 4;
  static constexpr int64_t kTileWords = 4;  // group, first row (or place in the list), number of rows, unused

  // If a group has one row in the mean, there are at most as many groups as slots, and so at most as many tiles.
  static bool has_tile_per_slot(const ProblemClass& c) { return c.m_hi == 1; }
  // The most tiles that can have rows. M is the slots, the batch is the groups.
  static Formula tiles(const ProblemClass& c, int32_t tile_m) {
    if (has_tile_per_slot(c)) return product(1, {{Var::kM, 1}});
    return {Term{1, {{Var::kM, tile_m}}}, Term{1, {{Var::kBatch, 1}}}};
  }
  static Formula bytes(const ProblemClass& c, int32_t tile_m) {
    constexpr int64_t kWord = 4, kParts = 5;
    Formula all = {Term{kWord * kAlignedWords * kParts, {}}, Term{kWord, {{Var::kBatch, 1}}},
                   Term{kWord, {{Var::kM, 1}}}};
    if (sum_of(c.rows) != DType::kNone) all.push_back(Term{kWord, {{Var::kM, 1}, {Var::kN, 1}}});
    for (Term term : tiles(c, tile_m)) {
      term.coefficient *= kWord * kTileWords;
      all.push_back(term);
    }
    return all;
  }
};

// The steps beside the product, by the ends of their symbols: one workgroup makes the tiles from the routing; then the
// product; then the slots of a token are summed, a column per thread.
inline constexpr char kScheduleSuffix[] = "_schedule", kSumSuffix[] = "_sum";
// The sum has a workgroup for this many slots (and for each piece of N).
inline constexpr int64_t kSlotsPerSumGroup = 8;

}  // namespace lathe
