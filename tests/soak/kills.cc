// kill -9 of a rank, an agent or a whole node at a random moment of a training: the job goes on,
// and ends with the weights of a training that nobody disturbed, to the last bit.
//
//   bazel run //tests/soak:kills              20 trainings, each with one kill
//   bazel run //tests/soak:kills -- 100 7     as many, at moments of seed 7
//
// Nodes are agents of this machine that meet over the loopback interface. Who was killed with its
// agent is started again, as a scheduler would. `bazel test //...` runs a small sample.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ddp/store/socket.h"
#include "launch/testing/ranks.h"
#include "launch/testing/subprocess.h"

namespace launch {
namespace {

int num_kills = 20;
unsigned seed = 1;

using Clock = std::chrono::steady_clock;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Four ranks, on one node or two, that train the same model.
class Job {
 public:
  Job(int num_nodes, std::string directory)
      : num_nodes_(num_nodes), directory_(std::move(directory)), port_(ddp::FreePort("127.0.0.1")) {
    std::filesystem::create_directories(directory_);
    for (int node = 0; node < num_nodes_; ++node) Start(node);
  }

  int num_nodes() const { return num_nodes_; }
  void KillRank(int node, int rank) {
    const std::vector<pid_t> ranks = Ranks(node);
    if (!ranks.empty()) kill(ranks[rank % ranks.size()], SIGKILL);
  }
  // All that the node runs is gone soon, without the agent's help.
  void KillAgent(int node) {
    const std::vector<pid_t> ranks = Ranks(node);
    agents_[node]->Signal(SIGKILL);
    for (const pid_t rank : ranks) WaitForEnd(rank);
    Replace(node);
  }
  // All of it at once.
  void KillNode(int node) {
    const std::vector<pid_t> ranks = Ranks(node);
    agents_[node]->Signal(SIGSTOP);
    for (const pid_t rank : ranks) kill(rank, SIGKILL);
    agents_[node]->Signal(SIGKILL);
    Replace(node);
  }

  // The weights at the end.
  std::string Wait() {
    for (const auto& agent : agents_) {
      const ProgramOutput output = agent->Wait();
      EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
    }
    return Read(weights());
  }

 private:
  std::string weights() const { return directory_ + "/weights.safetensors"; }
  std::vector<pid_t> Ranks(int node) const { return RanksOf(agents_[node]->pid()); }

  void Start(int node) { agents_.push_back(std::make_unique<Subprocess>(Command(node))); }

  // As a scheduler would: the job again where it had one node, else that node.
  void Replace(int node) {
    const bool was_done = agents_[node]->Wait().exit_code == 0;
    if (!was_done) agents_[node] = std::make_unique<Subprocess>(Command(node));
  }

  std::vector<std::string> Command(int node) const {
    std::vector<std::string> command = {"launch/run", "--max_restarts=3", "--node_wait=60s",
                                        fmt::format("--nproc_per_node={}", 4 / num_nodes_)};
    if (num_nodes_ > 1) {
      command.push_back(fmt::format("--nnodes={}", num_nodes_));
      command.push_back(fmt::format("--rendezvous=127.0.0.1:{}", port_));
      command.push_back(fmt::format("--node_rank={}", node));
    }
    for (const std::string& argument :
         {std::string("launch/train"), std::string("--model=mlp"), std::string("--data=digits"),
          std::string("--max_steps=150"), std::string("--log_every=50"),
          std::string("--momentum=0.9"), "--checkpoint_dir=" + directory_ + "/checkpoints",
          std::string("--checkpoint_every=10"), "--save=" + weights()}) {
      command.push_back(argument);
    }
    return command;
  }

  const int num_nodes_;
  const std::string directory_;
  const int port_;
  std::vector<std::unique_ptr<Subprocess>> agents_;  // by node
};

TEST(Kills, EndWithTheSameWeights) {
  const std::string directory = testing::TempDir() + "/kills";
  std::filesystem::remove_all(directory);
  const Clock::time_point start = Clock::now();
  const std::string undisturbed = Job(1, directory + "/undisturbed").Wait();
  const std::chrono::duration<double> duration = Clock::now() - start;
  ASSERT_FALSE(undisturbed.empty());

  std::mt19937 random(seed);
  for (int i = 0; i < num_kills; ++i) {
    Job job(1 + static_cast<int>(random() % 2), fmt::format("{}/{}", directory, i));
    const double moment = static_cast<double>(random() % 1000) / 1000;
    std::this_thread::sleep_for(duration * moment);
    // A store goes with its node: the first can't be replaced.
    const int node = job.num_nodes() - 1;
    const int what = static_cast<int>(random() % 3);
    SCOPED_TRACE(fmt::format("training {}: {} nodes, kill {} after {:.2f} s", i, job.num_nodes(),
                             what, duration.count() * moment));
    if (what == 0) job.KillRank(node, static_cast<int>(random() % 4));
    if (what == 1) job.KillAgent(node);
    if (what == 2) job.KillNode(node);
    EXPECT_EQ(job.Wait() == undisturbed, true) << "other weights";
  }
}

}  // namespace
}  // namespace launch

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) launch::num_kills = std::atoi(argv[1]);
  if (argc > 2) launch::seed = std::strtoul(argv[2], nullptr, 10);
  return RUN_ALL_TESTS();
}
