#include "ddp/replicated/hooks/quantize.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "ddp/replicated/hooks/all_reduce.h"
#include "ddp/replicated/hooks/block_codec.h"
#include "ddp/replicated/hooks/bucket_states.h"
#include "ddp/replicated/hooks/error_feedback.h"

namespace ddp {
namespace {

using ops::Tensor;

// How a bucket is cut up among the ranks: in whole blocks, each piece encoded by itself. The last
// ones may be short or empty.
class Pieces {
 public:
  Pieces(int64_t num_elements, int num_ranks) {
    const int64_t most = (NumBlocks(num_elements) + num_ranks - 1) / num_ranks * kBlockElements;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      const int64_t begin = std::min(rank * most, num_elements);
      begins_.push_back(begin);
      counts_.push_back(std::min(most, num_elements - begin));
      offsets_.push_back(num_bytes_);
      bytes_.push_back(EncodedBytes(counts_.back()));
      num_bytes_ += bytes_.back();
    }
  }

  int64_t begin(int rank) const { return begins_[rank]; }
  int64_t num_elements(int rank) const { return counts_[rank]; }
  std::span<float> Values(const Tensor& bucket, int rank) const {
    return bucket.elements<float>().subspan(begins_[rank], counts_[rank]);
  }

  // Of all pieces, encoded, one behind the other.
  int64_t num_bytes() const { return num_bytes_; }
  const std::vector<int64_t>& bytes() const { return bytes_; }
  Tensor Encoded(const Tensor& message, int rank) const {
    return message.Slice(offsets_[rank], offsets_[rank] + bytes_[rank]);
  }

 private:
  std::vector<int64_t> begins_, counts_, offsets_, bytes_;  // by rank
  int64_t num_bytes_ = 0;
};

struct Feedback {
  Feedback(int64_t num_elements, int64_t num_own) : gradients(num_elements), sum(num_own) {}

  ErrorFeedback gradients;
  ErrorFeedback sum;  // of this rank's piece
};

Tensor Bytes(int64_t num_bytes) {
  return Tensor::Empty({num_bytes}, {.dtype = ops::DType::kUInt8});
}

class Quantizer {
 public:
  std::shared_ptr<Work> Send(ProcessGroup& group, const GradientBucket& bucket) {
    const int64_t n = bucket.gradients.num_elements();
    const Pieces pieces(n, group.size());
    const int64_t own_bytes = pieces.bytes()[group.rank()];
    const auto feedback = feedbacks_.Of(bucket, n, pieces.num_elements(group.rank()));

    const Tensor values = bucket.gradients.To(ops::DType::kFloat32);
    feedback->gradients.AddTo(values.elements<float>());
    const Tensor message = Bytes(pieces.num_bytes());
    for (int rank = 0; rank < group.size(); ++rank) {
      Encode(pieces.Values(values, rank), pieces.Encoded(message, rank).data<uint8_t>(),
             feedback->gradients, pieces.begin(rank));
    }
    const Tensor received = Bytes(own_bytes * group.size());
    auto exchanged = group.AllToAll(BufferOf(message), BufferOf(received), pieces.bytes(),
                                    std::vector(group.size(), own_bytes));
    return Then(exchanged, [=, &group] {
      AddUp(received, pieces.Values(values, group.rank()));
      GiveSum(group, pieces, values, message, feedback->sum);
      bucket.gradients.CopyFrom(values);
    });
  }

 private:
  // sum = the ranks' values of a piece.
  static void AddUp(const Tensor& received, std::span<float> sum) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    const uint8_t* const end = received.data<uint8_t>() + received.num_bytes();
    if (sum.empty()) return;
    for (const uint8_t* piece = received.data<uint8_t>(); piece < end;
         piece += EncodedBytes(sum.size())) {
      DecodeAndAdd(piece, sum);
    }
  }

  // Afterwards all of `values` is the sum; before, this rank's piece of it.
  static void GiveSum(ProcessGroup& group, const Pieces& pieces, const Tensor& values,
                      const Tensor& message, ErrorFeedback& feedback) {
    const std::span<float> sum = pieces.Values(values, group.rank());
    const Tensor own = pieces.Encoded(message, group.rank());
    feedback.AddTo(sum);
    Encode(sum, own.data<uint8_t>(), feedback);
    group.AllGather(BufferOf(own), BufferOf(message), pieces.bytes())->Wait();
    for (int rank = 0; rank < group.size(); ++rank) {
      Decode(pieces.Encoded(message, rank).data<uint8_t>(), pieces.Values(values, rank));
    }
  }

  BucketStates<Feedback> feedbacks_;
};

}  // namespace

CommunicationHook QuantizeTo8Bits() {
  return [quantizer = std::make_shared<Quantizer>()](ProcessGroup& group,
                                                     const GradientBucket& bucket) {
    CheckGradients("int8", bucket);
    return quantizer->Send(group, bucket);
  };
}

}  // namespace ddp
