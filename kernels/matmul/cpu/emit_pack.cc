#include "kernels/matmul/cpu/emit_pack.h"

#include "core/packed.h"
#include "kernels/matmul/emit_blocks.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// Prefetch distance within its own lines, in cache lines, for a panel that no other follows.
constexpr int64_t kNearLines = 8;
// Prefetch distances in words: of pack_across, and of pack_panels within every panel.
constexpr int64_t kWordsAhead = 16;
constexpr int64_t kPanelWordsAhead = 32;
constexpr int64_t kRowSlack = 16;  // words between the rows of a panel beside those of K

// One block of an operand to pack: `lines` lines, each contiguous in memory along the other dimension.
struct PanelSource {
  const CpuWords& words;
  View view;
  Value first_line;  // index in the view
  Value lines_left;  // lines from there on; past the end the last one is read again
  Value start;       // first element of every line
  Value length;      // elements of every line; zeros are packed up to a whole vector
  bool ragged;       // `length` may be no multiple of lanes
  bool shifts;       // words are shifted (CpuWords::shifted)

  Value whole(Emit& e, int64_t vector) const { return ragged ? whole_vectors(e, length, vector) : length; }
  Value shifted(Value x) const { return shifts ? words.shifted(x) : x; }
};

// Packs at most `lanes` lines for pack_transposed, from line `first` of `lines` on.
void pack_group(Emit& e, const PanelSource& s, Value first, int64_t group, int64_t lines, int64_t pitch,
                Value memory, Value base) {
  const int64_t lanes = s.words.lanes;
  const auto exist = Emit::known(s.lines_left), length = Emit::known(s.length);
  Values from;
  for (int64_t l = 0; l < group; ++l) {
    Value at = e.add(first, l);
    if (!exist || *exist < lines) at = e.min(at, e.sub(s.lines_left, e.idx(1)));
    from.push_back(e.add(s.view.offset, e.add(row_at(e, s.view, e.add(s.first_line, at)), s.start)));
  }
  const int64_t near = kNearLines * elements_of_line(s.view);
  Value ahead = e.idx(near);
  if (!s.view.lists_rows())
    ahead = select(e, e.less(e.idx(lines), s.lines_left), e.mul(s.view.row_stride, lines), ahead);
  const bool has_more = !exist || *exist > lines || !length || *length > near;
  for_each_vector(e, s.whole(e, s.words.width()), s.length, s.words.width(), [&](Value at, Value left) {
    if (!left && has_more)
      for (Value line : from) {
        Value next = e.add(line, e.add(at, ahead));
        if (CpuBlocks::holds(s.view)) next = CpuBlocks(e, lanes, s.view).byte_of(next);
        e.prefetch(s.view.memory, next, kIntoL2);
      }
    Values rows(lanes, s.words.zero_words());
    for (int64_t r = 0; r < group; ++r)
      rows[r] = s.shifted(s.words.along_k(s.view, e.add(from[r], at), left));
    rows = e.transpose(rows);
    Value to = e.add(base, e.add(e.mul(s.words.count(at), pitch), first));
    for (int64_t q = 0; q < lanes; ++q)
      e.store_vector(s.words.to_scratch(rows[q]), memory, e.add(to, q * pitch));
  });
}

// Packs lines along K: memory[base + word * pitch + line] for `lines` lines, in blocks of lanes x lanes
// that are transposed in registers. Prefetches the next panel's lines into L2, or the same lines further on if
// there is no next panel or its lines are not a fixed distance away: hardware prefetchers cannot follow so many
// lines, each on a page of its own.
void pack_transposed(Emit& e, const PanelSource& s, int64_t lines, int64_t pitch, Value memory, Value base) {
  const int64_t lanes = s.words.lanes, whole = lines / lanes * lanes;
  // A group of fewer lines writes past its row; the next row or the later groups overwrite that.
  if (whole < lines) pack_group(e, s, e.idx(whole), lines - whole, lines, pitch, memory, base);
  e.loop(e.idx(0), e.idx(whole), lanes,
         [&](Value first) { pack_group(e, s, first, lanes, lines, pitch, memory, base); });
}

// Packs lines across K, all of `depth`: memory[base + word * pitch + position]. Words past the end of K are
// 0. `fetches`: prefetches the lines that come next into L2, at the end those of the next panel.
void pack_across(Emit& e, const PanelSource& s, Value depth, int64_t pitch, Value memory, Value base,
                 bool fetches) {
  const int64_t per_lane = s.words.per_lane();
  const auto line_at = [&](Value word, int64_t q) {
    Value line = e.min(e.add(e.mul(word, per_lane), q), e.sub(s.lines_left, e.idx(1)));
    return e.add(s.view.offset, e.add(e.mul(e.add(s.first_line, line), s.view.row_stride), s.start));
  };
  Value words = e.ceil_div(depth, e.idx(per_lane));
  const auto fetch = [&](Value word) {
    const int64_t step = elements_of_line(s.view);
    Value ahead = e.add(word, kWordsAhead), here = e.less(ahead, words);
    Value row = select(e, here, ahead, e.sub(ahead, words));
    Value panel = select(e, here, e.idx(0), e.idx(pitch));
    for (int64_t q = 0; q < per_lane; ++q)
      for (int64_t at = 0; at < pitch; at += step)
        e.prefetch(s.view.memory, e.add(line_at(row, q), e.add(panel, at)), kIntoL2);
  };
  e.loop(e.idx(0), words, 1, [&](Value word) {
    if (fetches) fetch(word);
    Values from;
    for (int64_t q = 0; q < per_lane; ++q) from.push_back(line_at(word, q));
    Value to = e.add(base, e.mul(word, pitch)), exist = e.sub(depth, e.mul(word, per_lane));
    for_each_vector(e, s.whole(e, s.words.lanes), s.length, s.words.lanes, [&](Value at, Value left) {
      Value x = s.words.across_k(s.view, from, at, left);
      x = s.shifted(s.words.first_elements(x, exist));
      e.store_vector(s.words.to_scratch(x), memory, e.add(to, at));
    });
  });
  // A register tile multiplies the vectors past the last column, too. Subnormal numbers that an earlier
  // kernel left there would make each of its FMAs many times slower.
  const int64_t lanes = s.words.lanes;
  Value end = e.mul(e.ceil_div(s.length, e.idx(lanes)), lanes);
  e.when(e.less(end, e.idx(pitch)), [&] {
    e.loop(e.idx(0), words, 1, [&](Value word) {
      e.loop(end, e.idx(pitch), lanes, [&](Value at) {
        e.store_vector(s.words.to_scratch(s.words.zero_words()), memory,
                       e.add(base, e.add(e.mul(word, pitch), at)));
      });
    });
  });
}

// Packs A stored K by M: memory[base + row * pitch + word]. Its lines run along M. Rows past `rows` are
// zero, and so are the elements of the last word past `depth`; whole words past it are undefined.
void pack_a_transposed(Emit& e, const CpuTile& t, Value i, Value rows, Value k0, Value depth, int64_t pitch,
                       Value base) {
  const int64_t mr = t.register_rows, lanes = t.lanes, per_lane = t.words.per_lane();
  e.loop(e.idx(0), depth, t.words.width(), [&](Value k) {
    Values from;
    for (int64_t q = 0; q < t.words.width(); ++q) {
      Value line = e.add(k0, e.min(e.add(k, q), e.sub(depth, e.idx(1))));
      from.push_back(e.add(t.a.offset, e.add(e.mul(line, t.a.row_stride), i)));
    }
    for (int64_t g = 0; g < mr; g += lanes) {
      Values block;
      Value left = e.sub(rows, e.min(e.idx(g), rows));
      for (int64_t q = 0; q < lanes; ++q) {
        const Values lines(from.begin() + q * per_lane, from.begin() + (q + 1) * per_lane);
        Value exist = e.sub(depth, e.min(e.add(k, q * per_lane), depth));
        block.push_back(t.words.first_elements(t.words.across_k(t.a, lines, e.idx(g), left), exist));
      }
      block = e.transpose(block);
      Value word = t.words.count(k);
      for (int64_t r = 0; r < lanes && g + r < mr; ++r)
        e.store_vector(t.words.to_scratch(block[r]), t.packing,
                       e.add(base, e.add(e.idx((g + r) * pitch), word)));
    }
  });
}

// Whether K may be no multiple of a vector's elements.
bool is_ragged(const CpuTile& t) {
  const auto depth = Emit::known(t.depth);
  return !depth || *depth % t.words.width() != 0;
}
// Calls `pack` with the layout of the operand: a constant, or for a generic kernel what its view says at
// run time.
void pack_by_layout(Emit& e, const View& v, bool k_contiguous, const std::function<void(bool)>& pack) {
  if (!v.k_contiguous) return pack(k_contiguous);
  const auto arm = [&](bool along_k) { return [&pack, along_k] { return pack(along_k), Values{}; }; };
  e.choose(v.k_contiguous, {}, arm(true), arm(false));
}

}  // namespace

void copy_line(Emit& e, const CpuTile& t, const LineAlongK& line, Value to) {
  const int64_t width = t.words.width();
  Value whole = line.ragged ? whole_vectors(e, line.length, width) : line.length;
  for_each_vector(e, whole, line.length, width, [&](Value k, Value left) {
    Value x = t.words.along_k(line.view, e.add(line.from, k), left);
    e.store_vector(t.words.to_scratch(x), t.packing, e.add(to, t.words.count(k)));
  });
}

Value last_panel(Emit& e, const CpuTile& t) {
  return e.mul(e.div(e.sub(t.columns, e.idx(1)), e.idx(kPackedColumns)), kPackedColumns);
}
Value panel_at(Emit& e, const CpuTile& t, Value column, Value k0) {
  return e.add(t.b.offset, e.add(e.mul(column, t.packed_depth), e.mul(k0, kPackedColumns)));
}

void pack_panels(Emit& e, const CpuTile& t, Value k0, Value depth) {
  const int64_t nr = t.register_columns, word = t.packed_word, step = kPackedColumns * word;
  Value last = last_panel(e, t);
  Value words = e.ceil_div(depth, e.idx(word));
  e.loop(e.idx(0), t.columns, nr, [&](Value j) {
    Values from, next;
    for (int64_t at = 0; at < nr; at += kPackedColumns) {
      from.push_back(panel_at(e, t, e.min(e.add(j, at), last), k0));
      next.push_back(panel_at(e, t, e.min(e.add(j, nr + at), last), k0));
    }
    Value to = e.mul(j, t.tile_k);
    e.loop(e.idx(0), words, 1, [&](Value w) {
      Value ahead = e.add(w, kPanelWordsAhead), here = e.less(ahead, words);
      Value fetched = e.mul(select(e, here, ahead, e.sub(ahead, words)), step);
      for (size_t p = 0; p < from.size(); ++p) {
        Value of = select(e, here, from[p], next[p]);
        e.prefetch(t.b.memory, e.add(of, fetched), kIntoL2);
      }
      for (int64_t at = 0; at < nr; at += t.lanes) {
        Value element = e.add(from[static_cast<size_t>(at / kPackedColumns)],
                              e.add(e.mul(w, step), at % kPackedColumns * word));
        Value place = e.add(to, e.add(e.mul(w, nr * word), at));
        if (word == 1) {
          e.store_vector(t.words.along_k(t.b, element, nullptr), t.packing, place);
          continue;
        }
        const auto halves = t.words.halves(t.b, element);
        e.store_vector(halves.first, t.packing, place);
        e.store_vector(halves.second, t.packing, e.add(place, nr));
      }
    });
  });
}

int64_t panel_depth(const CpuTile& t) { return t.tile_k / t.words.per_lane(); }
int64_t row_pitch(const CpuTile& t) { return panel_depth(t) + kRowSlack; }

void pack_columns(Emit& e, const CpuTile& t, const NestBlock& block, const ColumnPanels& panels,
                  const std::function<void(Value j, Value base)>& packed) {
  const int64_t width = panels.width;
  Value k0 = block.k0, depth = block.depth;
  e.loop(e.idx(0), t.columns, width, [&](Value j) {
    Value left = e.sub(t.columns, j), base = e.add(e.mul(j, panel_depth(t)), panels.first);
    const auto along = [&] {
      pack_transposed(e, {t.words, t.b, j, left, k0, depth, is_ragged(t), panels.shifts}, width, width,
                      t.packing, base);
    };
    const auto across = [&] {
      if (panels.whole_vectors && is_ragged(t)) {
        Value vectors = e.ceil_div(depth, e.idx(t.words.width()));
        e.loop(e.ceil_div(depth, e.idx(t.words.per_lane())), e.mul(vectors, t.lanes), 1, [&](Value word) {
          e.store_vector(t.words.to_scratch(t.words.zero_words()), t.packing,
                         e.add(base, e.mul(word, width)));
        });
      }
      pack_across(e, {t.words, t.b, k0, depth, j, e.min(left, e.idx(width)), true, panels.shifts}, depth,
                  width, t.packing, base, panels.fetches);
    };
    pack_by_layout(e, t.b, t.b_k_contiguous, [&](bool k_contiguous) { k_contiguous ? along() : across(); });
    if (packed) packed(j, base);
  });
}

void pack_rows(Emit& e, const CpuTile& t, const NestBlock& block, Value i, Value panel) {
  Value left = e.sub(t.rows, i);
  pack_by_layout(e, t.a, t.a_k_contiguous, [&](bool k_contiguous) {
    if (!k_contiguous)
      return pack_a_transposed(e, t, i, e.min(left, e.idx(t.register_rows)), block.k0, block.depth,
                               row_pitch(t), panel);
    e.loop(e.idx(0), e.idx(t.register_rows), 1, [&](Value r) {
      Value row = e.add(i, e.min(r, e.sub(left, e.idx(1))));
      Value from = e.add(t.a.offset, e.add(row_at(e, t.a, row), block.k0));
      copy_line(e, t, {t.a, from, block.depth, is_ragged(t)}, e.add(panel, e.mul(r, row_pitch(t))));
    });
  });
}

}  // namespace lathe::emit
