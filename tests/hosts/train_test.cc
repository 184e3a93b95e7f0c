// The trainer on two hosts with two ranks each, over the network between them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "launch/testing/subprocess.h"

namespace launch {
namespace {

using testing::HasSubstr;

using Words = std::vector<std::string>;

constexpr int kRanks = 4, kRanksPerHost = 2;

const Words kSmall = {"--model=mlp", "--hidden=16", "--data=digits", "--batch_size=16",
                      "--backend=gloo"};

Words operator+(Words one, const Words& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

std::string NodeOf(int rank) { return fmt::format("node{}", 1 + rank / kRanksPerHost); }

ProgramOutput Host(const Words& action_and_node, const Words& more) {
  ProgramOutput output = RunProgram(Words{"tests/hosts/host.sh"} + action_and_node + more);
  EXPECT_EQ(output.exit_code, 0) << output.err;
  return output;
}

std::string TempFile(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// All ranks, as a user starts them by hand; node1 has rank 0.
std::vector<std::unique_ptr<Subprocess>> StartRanks(const std::string& master_addr,
                                                    const Words& flags) {
  std::vector<std::unique_ptr<Subprocess>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::map<std::string, std::string> environment = {
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(kRanks)},
        {"LOCAL_RANK", std::to_string(rank % kRanksPerHost)},
        {"LOCAL_WORLD_SIZE", std::to_string(kRanksPerHost)},
        {"MASTER_ADDR", master_addr},
        {"MASTER_PORT", "29500"}};
    ranks.push_back(std::make_unique<Subprocess>(
        Words{"tests/hosts/host.sh", "on", NodeOf(rank), "launch/train"} + kSmall + flags,
        environment));
  }
  return ranks;
}

// These return the file with the weights at the end.
std::string WeightsOfTwoHosts(const std::string& master_addr, const Words& flags) {
  const std::string path = TempFile("weights_of_two_hosts");
  for (const auto& rank : StartRanks(master_addr, flags + Words{"--save=" + path})) {
    const ProgramOutput output = rank->Wait();
    EXPECT_EQ(output.exit_code, 0) << output.err;
  }
  return Read(path);
}

std::string WeightsOfOneHost(const Words& flags) {
  const std::string path = TempFile("weights_of_one_host");
  const ProgramOutput output =
      RunProgram(Words{"launch/train", fmt::format("--nproc_per_node={}", kRanks)} + kSmall +
                 flags + Words{"--save=" + path});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  return Read(path);
}

// The weights have the bits of a run on one host. MASTER_ADDR may be a name, which leads to
// 127.0.1.1 on its own host: others aren't told that address.
TEST(TwoHosts, TrainAsOneDoes) {
  const std::string own_address = Host({"on", "node1"}, {"getent", "ahosts", "node1"}).out;
  ASSERT_THAT(own_address, HasSubstr("127.0.1.1 "));
  const Words flags = {"--max_steps=30"};
  const std::string weights = WeightsOfOneHost(flags);
  EXPECT_FALSE(weights.empty());
  EXPECT_EQ(WeightsOfTwoHosts("10.77.0.1", flags), weights);
  EXPECT_EQ(WeightsOfTwoHosts("node1", flags), weights);
}

TEST(TwoHosts, ALinkThatGoesDownIsANamedErrorAndOnceItIsUpTheyGoOn) {
  const Words flags = {"--max_steps=2000", "--log_every=50", "--heartbeat_timeout=2s"};
  const Words kept =
      flags + Words{"--checkpoint_every=50", "--checkpoint_dir=" + TempFile("checkpoints")};
  const auto ranks = StartRanks("10.77.0.1", kept);
  ranks[0]->WaitForLines(5);  // about the run, steps 1, 50, 100, 150
  Host({"link", "node2"}, {"down"});
  for (int rank = 0; rank < kRanks; ++rank) {
    const ProgramOutput output = ranks[rank]->Wait();
    EXPECT_EQ(output.exit_code, 1) << "rank " << rank;
    EXPECT_THAT(output.err, HasSubstr("lost rank ")) << "rank " << rank;
  }
  Host({"link", "node2"}, {"up"});
  EXPECT_EQ(WeightsOfTwoHosts("10.77.0.1", kept + Words{"--resume=must"}), WeightsOfOneHost(flags));
}

}  // namespace
}  // namespace launch
