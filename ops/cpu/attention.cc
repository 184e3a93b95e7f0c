#include "ops/cpu/attention.h"

#include <algorithm>
#include <cstddef>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// Positions that are one piece of work. Many panels, as each needs all of its head's keys.
constexpr int64_t kQueriesPerPiece = 128;
// Pieces that give many threads work in the backward pass.
constexpr int64_t kWantedPieces = 16;

const AttentionKernels& Kernels(DType dtype) {
  const auto& kernels =
      ForIsa(baseline::kAttentionKernels, avx2::kAttentionKernels, avx512::kAttentionKernels);
  return kernels[static_cast<int>(dtype)];
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where the heads of a batch lie. Heads are numbered through all sequences.
class Layout {
 public:
  Layout(const Tensor& qkv, const AttentionParameters& parameters)
      : parameters_(parameters),
        size_(SizeOf(qkv.dtype())),
        time_(qkv.dim(1)),
        width_(qkv.dim(2) / 3),
        num_heads_(qkv.dim(0) * parameters.num_heads) {}

  int64_t time() const { return time_; }
  int64_t width() const { return width_; }
  int64_t num_heads() const { return num_heads_; }
  int64_t head_width() const { return width_ / parameters_.num_heads; }

  AttentionHead Head(const Tensor& qkv, int64_t head) const {
    return {Part(qkv, head, 0), Part(qkv, head, 1), Part(qkv, head, 2), 3 * width_, time_,
            head_width(),       parameters_.causal, parameters_.scale};
  }
  AttentionHeadGradient Gradient(const Tensor& dqkv, int64_t head, bool accumulate) const {
    return {Part(dqkv, head, 0), Part(dqkv, head, 1), Part(dqkv, head, 2), accumulate};
  }
  // Of the output or its gradient.
  std::byte* Output(const Tensor& out, int64_t head) const {
    return out.raw_data() + (Sequence(head) * time_ * width_ + Column(head)) * size_;
  }
  std::byte* LogSums(const Tensor& log_sums, int64_t head) const {
    return log_sums.raw_data() + head * time_ * SizeOf(log_sums.dtype());
  }

 private:
  int64_t Sequence(int64_t head) const { return head / parameters_.num_heads; }
  int64_t Column(int64_t head) const { return head % parameters_.num_heads * head_width(); }
  // Queries, keys and values are parts 0, 1 and 2 of a row.
  std::byte* Part(const Tensor& qkv, int64_t head, int64_t part) const {
    return qkv.raw_data() + ((Sequence(head) * time_ * 3 + part) * width_ + Column(head)) * size_;
  }

  const AttentionParameters& parameters_;
  int64_t size_, time_, width_, num_heads_;
};

Tensor Scratch(const Layout& layout, const TensorOptions& options) {
  return Tensor::Empty({AttentionScratch(layout.head_width(), SizeOf(options.dtype))}, options);
}

// A backward pass, cut into pieces: parts of a head's queries, each of which has sums of its own
// for the gradients of the head's keys and values.
class BackwardPass {
 public:
  BackwardPass(const Tensor& qkv, const Tensor& out, const Tensor& log_sums, const Tensor& dout,
               const Tensor& dqkv, bool accumulate, const AttentionParameters& parameters)
      : kernels_(Kernels(qkv.dtype())),
        layout_(qkv, parameters),
        qkv_(qkv),
        out_(out),
        log_sums_(log_sums),
        dout_(dout),
        dqkv_(dqkv),
        accumulate_(accumulate),
        sums_length_(layout_.time() * PaddedWidth(layout_.head_width(), SizeOf(log_sums.dtype()))) {
  }

  // One part a head: the sums belong to the thread that works on it.
  void RunWholeHeads() const {
    ParallelFor(layout_.num_heads(), 1, [&](int64_t head, int64_t) {
      const Tensor sums = Tensor::Zeros({2 * sums_length_}, log_sums_.options());
      AddQueries(head, 0, layout_.time(), sums, 0);
      StoreSums(head, sums, 0);
    });
  }

  void RunParts(int64_t parts) const {
    const int64_t panel = PanelQueries(SizeOf(log_sums_.dtype()));
    const int64_t queries = CeilDiv(CeilDiv(layout_.time(), parts), panel) * panel;
    const int64_t num_heads = layout_.num_heads();
    const Tensor sums = Tensor::Zeros({num_heads * parts * 2 * sums_length_}, log_sums_.options());
    ParallelFor(num_heads * parts, 1, [&](int64_t piece, int64_t) {
      const int64_t begin = std::min(piece % parts * queries, layout_.time());
      AddQueries(piece / parts, begin, std::min(begin + queries, layout_.time()), sums, piece);
    });
    ParallelFor(num_heads, 1, [&](int64_t head, int64_t) {
      for (int64_t part = 1; part < parts; ++part) AddSums(sums, head * parts, part);
      StoreSums(head, sums, head * parts);
    });
  }

 private:
  std::byte* KeySums(const Tensor& sums, int64_t piece) const {
    return sums.raw_data() + 2 * piece * sums_length_ * SizeOf(sums.dtype());
  }
  std::byte* ValueSums(const Tensor& sums, int64_t piece) const {
    return KeySums(sums, piece) + sums_length_ * SizeOf(sums.dtype());
  }

  void AddQueries(int64_t head, int64_t begin, int64_t end, const Tensor& sums,
                  int64_t piece) const {
    const Tensor scratch = Scratch(layout_, log_sums_.options());
    kernels_.backward(layout_.Head(qkv_, head), begin, end, layout_.Output(out_, head),
                      layout_.Output(dout_, head), layout_.width(),
                      layout_.LogSums(log_sums_, head), layout_.Gradient(dqkv_, head, accumulate_),
                      KeySums(sums, piece), ValueSums(sums, piece), scratch.raw_data());
  }

  void AddSums(const Tensor& sums, int64_t first, int64_t part) const {
    DispatchFloat("Attention", sums.dtype(), [&]<class C>() {
      C* const to = reinterpret_cast<C*>(KeySums(sums, first));
      const C* const from = reinterpret_cast<const C*>(KeySums(sums, first + part));
      for (int64_t i = 0; i < 2 * sums_length_; ++i) to[i] += from[i];
    });
  }

  void StoreSums(int64_t head, const Tensor& sums, int64_t piece) const {
    kernels_.store_sums(layout_.Head(qkv_, head), 0, layout_.time(), KeySums(sums, piece),
                        ValueSums(sums, piece), layout_.Gradient(dqkv_, head, accumulate_));
  }

  const AttentionKernels& kernels_;
  const Layout layout_;
  const Tensor &qkv_, &out_, &log_sums_, &dout_, &dqkv_;
  const bool accumulate_;
  const int64_t sums_length_;  // of a head's keys, or of its values
};

}  // namespace

void AttentionForward(const Tensor& qkv, const Tensor& out, const Tensor& log_sums,
                      const AttentionParameters& parameters) {
  if (out.num_elements() == 0) return;
  const auto kernel = Kernels(qkv.dtype()).forward;
  const Layout layout(qkv, parameters);
  const int64_t pieces = CeilDiv(layout.time(), kQueriesPerPiece);
  ParallelFor(layout.num_heads() * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t head = piece / pieces, begin = piece % pieces * kQueriesPerPiece;
    const Tensor scratch = Scratch(layout, log_sums.options());
    kernel(layout.Head(qkv, head), begin, std::min(begin + kQueriesPerPiece, layout.time()),
           layout.Output(out, head), layout.width(), layout.LogSums(log_sums, head),
           scratch.raw_data());
  });
}

void AttentionBackward(const Tensor& qkv, const Tensor& out, const Tensor& log_sums,
                       const Tensor& dout, const Tensor& dqkv, bool accumulate,
                       const AttentionParameters& parameters) {
  if (out.num_elements() == 0) return;
  const BackwardPass pass(qkv, out, log_sums, dout, dqkv, accumulate, parameters);
  const int64_t parts = std::min(CeilDiv(kWantedPieces, qkv.dim(0) * parameters.num_heads),
                                 CeilDiv(qkv.dim(1), kQueriesPerPiece));
  if (parts == 1) {
    pass.RunWholeHeads();
  } else {
    pass.RunParts(parts);
  }
}

}  // namespace ops::cpu
