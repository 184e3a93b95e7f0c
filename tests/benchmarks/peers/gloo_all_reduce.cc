// Gloo's own ring all-reduce over TCP on the loopback interface.
//
//   gloo_all_reduce RANKS SIZES SECONDS
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/benchmarks/peers/all_reduce_peer.h"

namespace benchmarks {
namespace {

class GlooPeer : public AllReducePeer {
 public:
  GlooPeer(int rank, int size, const std::string& directory)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, size)) {
    gloo::transport::tcp::attr loopback;
    loopback.hostname = "127.0.0.1";
    gloo::rendezvous::FileStore store(directory);
    auto device = gloo::transport::tcp::CreateDevice(loopback);
    context_->connectFullMesh(store, device);
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  float* Buffer(int64_t num_elements) override {
    buffer_.resize(num_elements);
    return buffer_.data();
  }

  void AllReduce(int64_t num_elements) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(buffer_.data(), num_elements);
    options.setTag(tag_++);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    void (*const sum)(void*, const void*, const void*, size_t) = &gloo::sum<float>;
    options.setReduceFunction(sum);
    gloo::allreduce(options);
  }

 private:
  const std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> buffer_;
  uint32_t tag_ = 1;
};

int Run(int num_ranks, const PeerArguments& arguments) {
  std::string directory = std::filesystem::temp_directory_path() / "gloo_all_reduce_XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  const int result = ForkRanks(num_ranks, [&](int rank) {
    GlooPeer peer(rank, num_ranks, directory);
    MeasureAllReduce(peer, arguments);
  });
  std::filesystem::remove_all(directory);
  return result;
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::signal(SIGPIPE, SIG_IGN);
  return benchmarks::Run(std::atoi(argv[1]), {argv[2], std::atof(argv[3])});
}
