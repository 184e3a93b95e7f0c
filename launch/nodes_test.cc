// Jobs on several nodes: agents of //launch:run on this machine that meet over the loopback
// interface as if each were a machine of its own. What kills them is real.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddp/store/socket.h"
#include "launch/testing/subprocess.h"

namespace launch {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

using Arguments = std::vector<std::string>;

// Says who it is, then does what `script` says.
std::string Rank(const std::string& script) {
  return "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE node $NODE_RANK restart "
         "$DDP_RESTART_COUNT pid $$; " +
         script;
}

constexpr char kStay[] = "exec sleep 1000";

class Nodes : public testing::Test {
 protected:
  // Starts the agent of a node of two ranks.
  Subprocess& Start(Arguments flags, const std::string& script) {
    Arguments command = {"launch/run", "--nproc_per_node=2", "--node_wait=300ms",
                         fmt::format("--rendezvous=127.0.0.1:{}", port_)};
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {"/bin/sh", "-c", Rank(script)});
    agents_.push_back(std::make_unique<Subprocess>(command));
    return *agents_.back();
  }

  // The agent that comes first on the machine holds the store.
  Subprocess& StartHost(const Arguments& flags, const std::string& script) {
    Subprocess& host = Start(flags, script);
    AwaitStore();
    return host;
  }

  // Returns once somebody listens at the rendezvous.
  void AwaitStore() const {
    ddp::ConnectPatiently("127.0.0.1", port_, ddp::DeadlineAfter(std::chrono::seconds(60)));
  }

  const int port_ = ddp::FreePort("127.0.0.1");
  std::vector<std::unique_ptr<Subprocess>> agents_;
};

std::vector<int> Pids(const std::vector<std::string>& lines) {
  std::vector<int> pids;
  for (const std::string& line : lines) {
    pids.push_back(std::stoi(line.substr(line.rfind(' ') + 1)));
  }
  return pids;
}

TEST_F(Nodes, AgreeOnRanks) {
  Subprocess& one = Start({"--nnodes=2", "--node_rank=1"}, "exit 0");
  Subprocess& zero = Start({"--nnodes=2", "--node_rank=0"}, "exit 0");
  const ProgramOutput first = zero.Wait(), second = one.Wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.out_lines(), UnorderedElementsAre(HasSubstr("0/4 0/2 node 0 restart 0"),
                                                      HasSubstr("1/4 1/2 node 0 restart 0")));
  EXPECT_THAT(second.out_lines(), UnorderedElementsAre(HasSubstr("2/4 0/2 node 1 restart 0"),
                                                       HasSubstr("3/4 1/2 node 1 restart 0")));
}

TEST_F(Nodes, ComeAsTheyLike) {
  for (int i = 0; i < 3; ++i) Start({"--nnodes=3"}, "exit 0");
  std::vector<std::string> lines;
  for (const auto& agent : agents_) {
    const ProgramOutput output = agent->Wait();
    EXPECT_EQ(output.exit_code, 0) << output.err;
    for (const std::string& line : output.out_lines()) lines.push_back(line.substr(0, 3));
  }
  EXPECT_THAT(lines, UnorderedElementsAre("0/6", "1/6", "2/6", "3/6", "4/6", "5/6"));
}

TEST_F(Nodes, AFailureAnywhereEndsAllAndIsNamedByAll) {
  Start({"--nnodes=2"}, "test $RANK = 3 && exit 7; exec sleep 1000");
  Start({"--nnodes=2"}, "test $RANK = 3 && exit 7; exec sleep 1000");
  for (const auto& agent : agents_) {
    const ProgramOutput output = agent->Wait();
    EXPECT_EQ(output.exit_code, 7);
    EXPECT_EQ(output.last_error(), "rank 3 failed: exit code 7");
  }
}

TEST_F(Nodes, RestartAllTogether) {
  const std::string script =
      "test $DDP_RESTART_COUNT = 1 && exit 0; test $RANK = 2 && kill -9 $$; "
      "exec sleep 1000";
  Start({"--nnodes=2", "--max_restarts=1"}, script);
  Start({"--nnodes=2", "--max_restarts=1"}, script);
  for (const auto& agent : agents_) {
    const ProgramOutput output = agent->Wait();
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_EQ(output.err, "rank 2 failed: killed by signal 9 (Killed); restart 1 of 1\n");
    EXPECT_THAT(output.out_lines(), Contains(HasSubstr("restart 1")).Times(2));
  }
}

TEST_F(Nodes, RestartsAreCountedForAllTogether) {
  const std::string script =
      "test $NODE_RANK = $(($DDP_RESTART_COUNT % 2)) && exit 5; "
      "exec sleep 1000";
  Start({"--nnodes=2", "--max_restarts=2"}, script);
  Start({"--nnodes=2", "--max_restarts=2"}, script);
  for (const auto& agent : agents_) {
    const ProgramOutput output = agent->Wait();
    EXPECT_EQ(output.exit_code, 5);
    EXPECT_THAT(output.last_error(), HasSubstr("restarts so far: 2, as many as allowed"));
  }
}

class LostNode : public Nodes, public testing::WithParamInterface<int> {};

TEST_P(LostNode, LeavesTheOthersToGoOn) {
  const std::string script = "test $DDP_RESTART_COUNT = 1 && exit 0; exec sleep 1000";
  const Arguments flags = {"--nnodes=1:2", "--max_restarts=1", "--node_wait=2s"};
  Subprocess& host = StartHost(flags, script);
  Subprocess& other = Start(flags, script);
  host.WaitForLines(2);
  const std::vector<int> lost = Pids(other.WaitForLines(2));
  other.Signal(GetParam());
  const ProgramOutput output = host.Wait();
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out_lines(), IsSupersetOf({HasSubstr("0/4"), HasSubstr("0/2 0/2 node 0")}));
  EXPECT_EQ(other.Wait().exit_code, 128 + GetParam());
  for (const int pid : lost) WaitForEnd(pid);
}

INSTANTIATE_TEST_SUITE_P(All, LostNode, testing::Values(SIGTERM, SIGKILL));

TEST_F(Nodes, AReplacementTakesThePlaceOfALostNode) {
  const std::string script = "test $DDP_RESTART_COUNT = 1 && exit 0; exec sleep 1000";
  const Arguments flags = {"--nnodes=2", "--max_restarts=1", "--node_wait=100s"};
  Subprocess& host = StartHost(flags, script);
  Subprocess& other = Start(flags, script);
  host.WaitForLines(2);
  other.WaitForLines(2);
  other.Signal(SIGKILL);
  Subprocess& replacement = Start(flags, script);
  const ProgramOutput output = host.Wait();
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.err, HasSubstr("was lost: its agent ended"));
  const ProgramOutput replaced = replacement.Wait();
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_THAT(replaced.out_lines(), Contains(HasSubstr("3/4 1/2 node 1 restart 1")));
}

TEST_F(Nodes, TooFewLeftIsTheEnd) {
  const Arguments flags = {"--nnodes=2", "--max_restarts=1"};
  Subprocess& host = StartHost(flags, kStay);
  Subprocess& other = Start(flags, kStay);
  const std::vector<int> pids = Pids(host.WaitForLines(2));
  other.WaitForLines(2);
  other.Signal(SIGKILL);
  const ProgramOutput output = host.Wait();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(),
              AllOf(HasSubstr("1 node came within 0.3 s, but at least 2 must take part"),
                    HasSubstr("was lost")));
  for (const int pid : pids) EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(Nodes, AnAgentThatHangsIsLostAfterItsHeartbeat) {
  const Arguments flags = {"--nnodes=2", "--heartbeat_timeout=1s"};
  Subprocess& host = StartHost(flags, kStay);
  Subprocess& other = Start(flags, kStay);
  host.WaitForLines(2);
  const std::vector<int> pids = Pids(other.WaitForLines(2));
  other.Signal(SIGSTOP);
  const ProgramOutput output = host.Wait();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("silent for 1 s"));
  // When it wakes up it finds itself alone.
  other.Signal(SIGCONT);
  const ProgramOutput late = other.Wait();
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.last_error(), HasSubstr("lost the store at"));
  for (const int pid : pids) EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(Nodes, WithoutTheNodeOfTheStoreTheJobEnds) {
  const Arguments flags = {"--nnodes=1:2", "--max_restarts=5"};
  const std::string error_file = testing::TempDir() + "/error.json";
  Arguments other_flags = flags;
  other_flags.push_back("--error_file=" + error_file);
  Subprocess& host = StartHost(flags, kStay);
  Subprocess& other = Start(other_flags, kStay);
  host.WaitForLines(2);
  const std::vector<int> pids = Pids(other.WaitForLines(2));
  host.Signal(SIGKILL);
  const ProgramOutput output = other.Wait();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(),
              AllOf(HasSubstr("lost the store at 127.0.0.1"), HasSubstr("the job can't go on")));
  for (const int pid : pids) EXPECT_EQ(kill(pid, 0), -1);
  std::ifstream file(error_file);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["reason"], output.last_error());
  EXPECT_EQ(json["ranks"].size(), 2u);
}

TEST_F(Nodes, ALateNodeIsTakenIn) {
  const std::string script = "test $DDP_RESTART_COUNT = 1 && exit 0; exec sleep 1000";
  Subprocess& host = StartHost({"--nnodes=1:2"}, script);
  host.WaitForLines(2);
  Subprocess& late = Start({"--nnodes=1:2"}, script);
  const ProgramOutput output = host.Wait(), joined = late.Wait();
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(joined.exit_code, 0) << joined.err;
  EXPECT_THAT(output.err, HasSubstr("has come; the ranks start again"));
  EXPECT_THAT(output.out_lines(), IsSupersetOf({HasSubstr("0/2"), HasSubstr("0/4")}));
  EXPECT_THAT(joined.out_lines(), UnorderedElementsAre(HasSubstr("2/4"), HasSubstr("3/4")));
}

TEST_F(Nodes, OneTooManyGetsNoRanks) {
  const std::string script = "test $DDP_RESTART_COUNT = 1 && exit 0; exec sleep 1000";
  const Arguments flags = {"--nnodes=2", "--max_restarts=1"};
  StartHost(flags, script);
  for (int i = 0; i < 2; ++i) Start(flags, script);
  const std::vector<int> pids = Pids(agents_[0]->WaitForLines(2));
  kill(pids[0], SIGKILL);
  size_t num_lines = 0;
  for (const auto& agent : agents_) {
    const ProgramOutput output = agent->Wait();
    EXPECT_EQ(output.exit_code, 0) << output.err;
    num_lines += output.out_lines().size();
    EXPECT_THAT(output.out, Not(HasSubstr("/6 ")));
  }
  EXPECT_LE(num_lines, 8u) << "two nodes of two ranks in two generations";
}

TEST_F(Nodes, TwoJobsAtOneAddressDoNotMeet) {
  Subprocess& host = StartHost({"--nnodes=2", "--job_id=a"}, "exit 0");
  const ProgramOutput stranger = Start({"--nnodes=2", "--job_id=b"}, "exit 0").Wait();
  EXPECT_EQ(stranger.exit_code, 1);
  EXPECT_THAT(stranger.last_error(),
              HasSubstr("the store of 'a', and refuses 'b', which is another job"));
  Subprocess& other = Start({"--nnodes=2", "--job_id=a"}, "exit 0");
  EXPECT_EQ(host.Wait().exit_code, 0);
  EXPECT_EQ(other.Wait().exit_code, 0);
}

TEST_F(Nodes, NobodyElseComesIsAnError) {
  const ProgramOutput output = Start({"--nnodes=2", "--join_timeout=300ms"}, "exit 0").Wait();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("1 node came within 0.3 s, but at least 2"));
  EXPECT_EQ(output.out, "");
}

TEST_F(Nodes, NobodyAtTheRendezvousIsAnError) {
  const ProgramOutput output =
      Start({"--nnodes=2", "--node_rank=1", "--join_timeout=300ms"}, "exit 0").Wait();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr(fmt::format("127.0.0.1:{}", port_)));
}

TEST_F(Nodes, TwoOfTheSameRankAreNamed) {
  Start({"--nnodes=2", "--node_rank=0"}, "exit 0");
  AwaitStore();
  const ProgramOutput output = Start({"--nnodes=2", "--node_rank=0"}, "exit 0").Wait();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("in use"));
  agents_[0]->Signal(SIGTERM);
  EXPECT_EQ(agents_[0]->Wait().exit_code, 143);
}

TEST_F(Nodes, AllAskToBeRequeued) {
  Start({"--nnodes=2", "--max_restarts=3"}, "exit 75");
  Start({"--nnodes=2", "--max_restarts=3"}, "exit 75");
  for (const auto& agent : agents_) EXPECT_EQ(agent->Wait().exit_code, 75);
}

TEST_F(Nodes, ASignalWhileTheyMeetEndsAnAgent) {
  Subprocess& host = StartHost({"--nnodes=2"}, "exit 0");
  host.Signal(SIGTERM);
  EXPECT_EQ(host.Wait().exit_code, 143);
}

}  // namespace
}  // namespace launch
