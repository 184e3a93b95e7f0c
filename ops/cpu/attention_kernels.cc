#include "ops/cpu/attention_kernels.h"

#include "ops/cpu/kernel_element.h"
#include "ops/cpu/kernel_math.h"
#include "ops/cpu/kernel_product.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

template <class C>
constexpr int64_t kQueries = PanelQueries(sizeof(C));

inline float Log(float x) { return __builtin_logf(x); }
inline double Log(double x) { return __builtin_log(x); }

// A matrix that is read number by number.
template <class C>
struct Rows {
  const C* data;
  int64_t stride;
};

// to[rows, padded] = factor from[rows, width], filled up with zeros to a panel.
template <class T, class C = Compute<T>>
void LoadPanel(const T* from, int64_t stride, int64_t rows, int64_t width, C factor, C* to) {
  const int64_t padded = PaddedWidth(width, sizeof(C));
  for (int64_t i = 0; i < rows; ++i) {
    ForEach(width, [=](int64_t j) { to[i * padded + j] = factor * Load(from[i * stride + j]); });
    for (int64_t j = width; j < padded; ++j) to[i * padded + j] = 0;
  }
  for (int64_t i = rows * padded; i < kQueries<C> * padded; ++i) to[i] = 0;
}

// to[rows, width] = or += factor from[rows, padded].
template <class T, class C = Compute<T>>
void StoreRows(const C* from, int64_t rows, int64_t width, C factor, T* to, int64_t stride,
               bool accumulate) {
  const int64_t padded = PaddedWidth(width, sizeof(C));
  for (int64_t i = 0; i < rows; ++i) {
    const C* const row = from + i * padded;
    T* const out = to + i * stride;
    if (accumulate) {
      ForEach(width, [=](int64_t j) { out[j] = Round<T>(Load(out[j]) + factor * row[j]); });
    } else {
      ForEach(width, [=](int64_t j) { out[j] = Round<T>(factor * row[j]); });
    }
  }
}

// Rows of keys or values where they are, or converted into `scratch`.
template <class T, class C = Compute<T>>
Rows<C> LoadTile(const void* matrix, int64_t stride, int64_t begin, int64_t rows, int64_t width,
                 C* scratch) {
  const T* const from = static_cast<const T*>(matrix) + begin * stride;
  if constexpr (std::is_same_v<T, C>) {
    return {from, stride};
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      ForEach(width, [=](int64_t j) { scratch[i * width + j] = Load(from[i * stride + j]); });
    }
    return {scratch, width};
  }
}

// out[keys, kQueries] = tile[keys, width] panel[width, kQueries].
template <class C>
void TimesPanel(const Rows<C>& tile, int64_t keys, int64_t width, const C* panel, C* out) {
  Multiply<C>({.m = keys,
               .n = kQueries<C>,
               .k = width,
               .a = tile.data,
               .a_row_step = tile.stride,
               .a_column_step = 1,
               .b = panel,
               .b_stride = kQueries<C>,
               .c = out,
               .c_stride = kQueries<C>,
               .accumulate = false});
}

// out[width, kQueries] = or += tile[keys, width]^T scores[keys, kQueries].
template <class C>
void TransposedTimesScores(const Rows<C>& tile, int64_t keys, int64_t width, const C* scores,
                           bool accumulate, C* out) {
  Multiply<C>({.m = width,
               .n = kQueries<C>,
               .k = keys,
               .a = tile.data,
               .a_row_step = 1,
               .a_column_step = tile.stride,
               .b = scores,
               .b_stride = kQueries<C>,
               .c = out,
               .c_stride = kQueries<C>,
               .accumulate = accumulate});
}

// sums[keys, padded] += scores[keys, queries] rows[queries, padded].
template <class C>
void AddScoresTimesRows(const C* scores, int64_t keys, int64_t queries, const C* rows,
                        int64_t padded, C* sums) {
  Multiply<C>({.m = keys,
               .n = padded,
               .k = queries,
               .a = scores,
               .a_row_step = kQueries<C>,
               .a_column_step = 1,
               .b = rows,
               .b_stride = padded,
               .c = sums,
               .c_stride = padded,
               .accumulate = true});
}

// Gives `value` to the scores of keys that come after their query. `key` and `query` are the
// positions of the first.
template <class C>
void MaskFuture(int64_t key, int64_t keys, int64_t query, C value, C* scores) {
  for (int64_t j = query + 1 > key ? query + 1 - key : 0; j < keys; ++j) {
    const int64_t before = key + j - query;
    const int64_t masked = before < kQueries<C> ? before : kQueries<C>;
    for (int64_t i = 0; i < masked; ++i) scores[j * kQueries<C> + i] = value;
  }
}

// The softmax of a panel's queries so far, and the output that goes with it.
template <class C>
struct RunningSoftmax {
  C largest[kQueries<C>], sums[kQueries<C>];
  C* output;  // [width, kQueries], not yet divided by sums

  RunningSoftmax(C* output, int64_t width) : output(output) {
    for (int64_t i = 0; i < kQueries<C>; ++i) largest[i] = -__builtin_huge_val(), sums[i] = 0;
    for (int64_t i = 0; i < width * kQueries<C>; ++i) output[i] = 0;
  }

  // Turns a tile of scores into exp(score - largest), and what was summed up before into the same.
  void Update(C* scores, int64_t keys, int64_t width) {
    constexpr int64_t kWidth = VectorOf<C>::kWidth;
    C shift[kQueries<C>], correction[kQueries<C>];
    for (int64_t v = 0; v < kQueries<C>; v += kWidth) {
      Vector<C> top = LoadVector(largest + v);
      for (int64_t j = 0; j < keys; ++j) {
        const Vector<C> next = LoadVector(scores + j * kQueries<C> + v);
        top = next > top ? next : top;
      }
      StoreVector(top, shift + v);
    }
    // Where all scores are -infinity so far, they count 0 against later ones.
    bool changed = false;
    for (int64_t i = 0; i < kQueries<C>; ++i) {
      const C top = shift[i];
      shift[i] = top == -__builtin_huge_val() ? 0 : top;
      correction[i] = Exp(largest[i] - shift[i]);
      changed |= top != largest[i];
      largest[i] = top;
    }
    for (int64_t j = 0; j < keys; ++j) {
      C* const row = scores + j * kQueries<C>;
      ForEach(kQueries<C>, [&, row](int64_t i) { row[i] = Exp(row[i] - shift[i]); });
    }
    for (int64_t v = 0; v < kQueries<C>; v += kWidth) {
      Vector<C> sum = LoadVector(sums + v) * LoadVector(correction + v);
      for (int64_t j = 0; j < keys; ++j) sum += LoadVector(scores + j * kQueries<C> + v);
      StoreVector(sum, sums + v);
    }
    if (changed) Scale(correction, width);
  }

  void Scale(const C* factors, int64_t width) {
    for (int64_t j = 0; j < width; ++j) {
      C* const row = output + j * kQueries<C>;
      ForEach(kQueries<C>, [=](int64_t i) { row[i] *= factors[i]; });
    }
  }
};

int64_t KeysSeen(const AttentionHead& head, int64_t queries_end) {
  return head.causal && queries_end < head.time ? queries_end : head.time;
}

template <class T>
void Forward(const AttentionHead& head, int64_t begin, int64_t end, void* out, int64_t out_stride,
             void* log_sums, void* scratch) {
  using C = Compute<T>;
  const int64_t width = head.head_width, padded = PaddedWidth(width, sizeof(C));
  C* const rows = static_cast<C*>(scratch);
  C* const queries = rows + kQueries<C> * padded;
  C* const output = queries + kQueries<C> * padded;
  C* const scores = output + kQueries<C> * padded;
  C* const tile_scratch = scores + kTileKeys * kQueries<C>;
  for (int64_t query = begin; query < end; query += kQueries<C>) {
    const int64_t count = end - query < kQueries<C> ? end - query : kQueries<C>;
    LoadPanel(static_cast<const T*>(head.query) + query * head.stride, head.stride, count, width,
              static_cast<C>(head.scale), rows);
    TransposePanel(rows, kQueries<C>, padded, queries);
    RunningSoftmax<C> softmax(output, padded);
    const int64_t keys_end = KeysSeen(head, query + count);
    for (int64_t key = 0; key < keys_end; key += kTileKeys) {
      const int64_t keys = keys_end - key < kTileKeys ? keys_end - key : kTileKeys;
      TimesPanel(LoadTile<T>(head.key, head.stride, key, keys, width, tile_scratch), keys, width,
                 queries, scores);
      if (head.causal) MaskFuture<C>(key, keys, query, -__builtin_huge_val(), scores);
      softmax.Update(scores, keys, width);
      TransposedTimesScores(LoadTile<T>(head.value, head.stride, key, keys, width, tile_scratch),
                            keys, width, scores, true, output);
    }
    C inverse[kQueries<C>];
    for (int64_t i = 0; i < kQueries<C>; ++i) inverse[i] = 1 / softmax.sums[i];
    softmax.Scale(inverse, width);
    TransposePanel(output, padded, kQueries<C>, rows);
    StoreRows<T>(rows, count, width, C(1), static_cast<T*>(out) + query * out_stride, out_stride,
                 false);
    for (int64_t i = 0; i < count; ++i) {
      static_cast<C*>(log_sums)[query + i] = softmax.largest[i] + Log(softmax.sums[i]);
    }
  }
}

// products[i] = sum_j a[i, j] b[i, j] of a panel's rows.
template <class T, class C = Compute<T>>
void RowProducts(const C* a, const T* b, int64_t b_stride, int64_t rows, int64_t width,
                 C* products) {
  constexpr int64_t kWidth = VectorOf<C>::kWidth;
  const int64_t padded = PaddedWidth(width, sizeof(C));
  for (int64_t i = 0; i < rows; ++i) {
    const C* const left = a + i * padded;
    const T* const right = b + i * b_stride;
    Vector<C> lanes = {};
    for (int64_t j = 0; j < width; j += kWidth) {
      C values[kWidth] = {};
      const int64_t count = width - j < kWidth ? width - j : kWidth;
      ForEach(count, [&, j](int64_t v) { values[v] = left[j + v] * Load(right[j + v]); });
      lanes += LoadVector(values);
    }
    C sum = 0;
    for (int64_t v = 0; v < kWidth; ++v) sum += lanes[v];
    products[i] = sum;
  }
}

// probabilities = exp(scores - log_sums); gradients = probabilities (gradients - products), all
// [keys, kQueries]. Future keys have neither.
template <class C>
void SoftmaxBackward(int64_t keys, const C* log_sums, const C* products, C* scores, C* gradients) {
  for (int64_t j = 0; j < keys; ++j) {
    C* const row = scores + j * kQueries<C>;
    C* const gradient = gradients + j * kQueries<C>;
    ForEach(kQueries<C>, [=](int64_t i) {
      row[i] = Exp(row[i] - log_sums[i]);
      gradient[i] = row[i] * (gradient[i] - products[i]);
    });
  }
}

template <class T>
void Backward(const AttentionHead& head, int64_t begin, int64_t end, const void* out,
              const void* dout, int64_t out_stride, const void* log_sums,
              const AttentionHeadGradient& gradient, void* key_sums, void* value_sums,
              void* scratch) {
  using C = Compute<T>;
  const int64_t width = head.head_width, padded = PaddedWidth(width, sizeof(C));
  const int64_t panel = kQueries<C> * padded;
  C* const query_rows = static_cast<C*>(scratch);
  C* const dout_rows = query_rows + panel;
  C* const queries = dout_rows + panel;
  C* const douts = queries + panel;
  C* const dqueries = douts + panel;
  C* const scores = dqueries + panel;
  C* const dscores = scores + kTileKeys * kQueries<C>;
  C* const key_scratch = dscores + kTileKeys * kQueries<C>;
  C* const value_scratch = key_scratch + kTileKeys * padded;
  const C scale = static_cast<C>(head.scale);
  for (int64_t query = begin; query < end; query += kQueries<C>) {
    const int64_t count = end - query < kQueries<C> ? end - query : kQueries<C>;
    LoadPanel(static_cast<const T*>(head.query) + query * head.stride, head.stride, count, width,
              scale, query_rows);
    LoadPanel(static_cast<const T*>(dout) + query * out_stride, out_stride, count, width, C(1),
              dout_rows);
    TransposePanel(query_rows, kQueries<C>, padded, queries);
    TransposePanel(dout_rows, kQueries<C>, padded, douts);
    C panel_log_sums[kQueries<C>] = {}, products[kQueries<C>] = {};
    for (int64_t i = 0; i < count; ++i) {
      panel_log_sums[i] = static_cast<const C*>(log_sums)[query + i];
    }
    RowProducts(dout_rows, static_cast<const T*>(out) + query * out_stride, out_stride, count,
                width, products);
    const int64_t keys_end = KeysSeen(head, query + count);
    for (int64_t key = 0; key < keys_end; key += kTileKeys) {
      const int64_t keys = keys_end - key < kTileKeys ? keys_end - key : kTileKeys;
      const auto key_tile = LoadTile<T>(head.key, head.stride, key, keys, width, key_scratch);
      const auto value_tile = LoadTile<T>(head.value, head.stride, key, keys, width, value_scratch);
      TimesPanel(key_tile, keys, width, queries, scores);
      if (head.causal) MaskFuture<C>(key, keys, query, -__builtin_huge_val(), scores);
      TimesPanel(value_tile, keys, width, douts, dscores);
      SoftmaxBackward(keys, panel_log_sums, products, scores, dscores);
      AddScoresTimesRows(scores, keys, count, dout_rows, padded,
                         static_cast<C*>(value_sums) + key * padded);
      AddScoresTimesRows(dscores, keys, count, query_rows, padded,
                         static_cast<C*>(key_sums) + key * padded);
      TransposedTimesScores(key_tile, keys, width, dscores, key > 0, dqueries);
    }
    TransposePanel(dqueries, padded, kQueries<C>, query_rows);
    StoreRows<T>(query_rows, count, width, scale,
                 static_cast<T*>(gradient.query) + query * head.stride, head.stride,
                 gradient.accumulate);
  }
}

template <class T>
void StoreSums(const AttentionHead& head, int64_t begin, int64_t end, const void* key_sums,
               const void* value_sums, const AttentionHeadGradient& gradient) {
  using C = Compute<T>;
  const int64_t start = begin * PaddedWidth(head.head_width, sizeof(C));
  const auto store = [&](const void* sums, void* to) {
    StoreRows<T>(static_cast<const C*>(sums) + start, end - begin, head.head_width, C(1),
                 static_cast<T*>(to) + begin * head.stride, head.stride, gradient.accumulate);
  };
  store(key_sums, gradient.key);
  store(value_sums, gradient.value);
}

template <class T>
constexpr AttentionKernels KernelsOf() {
  return {Forward<T>, Backward<T>, StoreSums<T>};
}

}  // namespace

constinit const AttentionKernels kAttentionKernels[kNumAttentionDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
