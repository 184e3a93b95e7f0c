#include "launch/flags/run_flags.h"

#include <absl/flags/reflection.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::optional<std::string> Nothing(const std::string&) { return std::nullopt; }

class RunFlags : public testing::Test {
 protected:
  RunCommandLine Parse(const std::vector<std::string>& arguments,
                       const Environment& environment = Nothing) {
    const absl::FlagSaver saver;  // each command line begins with the defaults
    return ParseRunCommandLine(arguments, environment);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    try {
      Parse(arguments);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(RunFlags, EndWhereTheProgramBegins) {
  const AgentOptions agent =
      Parse({"--nproc_per_node", "4", "--log_prefix", "train", "--nproc_per_node=2", "-x"}).agent;
  EXPECT_EQ(agent.num_ranks, 4);
  EXPECT_TRUE(agent.prefix_lines);
  EXPECT_THAT(agent.command, ElementsAre("train", "--nproc_per_node=2", "-x"));
  EXPECT_THAT(Parse({"--", "-odd-"}).agent.command, ElementsAre("-odd-"));
}

TEST_F(RunFlags, SayHowRanksEnd) {
  const AgentOptions agent = Parse({"--max_restarts=3", "--max_stalled_attempts=5", "--grace=90s",
                                    "--stop_signal=SIGWINCH", "true"})
                                 .agent;
  EXPECT_EQ(agent.restarts.max_restarts, 3);
  EXPECT_EQ(agent.restarts.max_stalled_attempts, 5);
  EXPECT_EQ(agent.grace, std::chrono::seconds(90));
  EXPECT_EQ(agent.stop_signal, SIGWINCH);
}

TEST_F(RunFlags, NodesMeetSomewhere) {
  EXPECT_FALSE(Parse({"x"}).agent.group);
  EXPECT_FALSE(Parse({"--standalone", "--rendezvous=a:1", "--nnodes=2", "x"}).agent.group);
  const auto group =
      Parse({"--nnodes=2:4", "--rendezvous=[::1]:29500", "--node_rank=3", "x", "y"}).agent.group;
  ASSERT_TRUE(group);
  EXPECT_EQ(group->min_nodes, 2);
  EXPECT_EQ(group->max_nodes, 4);
  EXPECT_EQ(group->host, "::1");
  EXPECT_EQ(group->port, 29500);
  EXPECT_EQ(group->node_rank, 3);
  EXPECT_EQ(group->job_id, "2:4 nodes of x y");
  EXPECT_EQ(group->address, "");
  EXPECT_EQ(Parse({"--interface=lo", "--rendezvous=a:1", "x"}).agent.group->address, "127.0.0.1");
  EXPECT_EQ(Parse({"--nnodes=3", "--rendezvous=a:1", "x"}).agent.group->min_nodes, 3);
}

TEST_F(RunFlags, BadNodesAreTold) {
  EXPECT_THAT(Error({"--interface=none", "--rendezvous=a:1", "x"}),
              AllOf(HasSubstr("--interface=none: "), HasSubstr("there are "), HasSubstr("lo")));
  EXPECT_THAT(Error({"--rendezvous=a:0", "x"}), HasSubstr("--rendezvous=a:0: expected a port"));
  EXPECT_THAT(Error({"--nnodes=2", "x"}), HasSubstr("--rendezvous=HOST:PORT"));
  for (const std::string nnodes : {"0", "2:1", "1:2:3", "x", "", "1,2", ":2"}) {
    EXPECT_THAT(Error({"--nnodes=" + nnodes, "--rendezvous=a:1", "x"}),
                HasSubstr("--nnodes=" + nnodes + ": expected N, or MIN:MAX"));
  }
  EXPECT_THAT(Error({"--nnodes=2", "--rendezvous=a:1", "--node_rank=2", "x"}),
              HasSubstr("--node_rank=2: expected 0 to 1"));
  for (const std::string address : {"host", "host:", ":1", "fe80::1:29500", "host:70000"}) {
    EXPECT_THAT(Error({"--rendezvous=" + address, "x"}),
                AllOf(HasSubstr("--rendezvous=" + address), HasSubstr("expected HOST:PORT")));
  }
}

TEST_F(RunFlags, PathsStartWhereTheUserIs) {
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "BUILD_WORKING_DIRECTORY") return "/home/me";
    if (name == "DDP_ERROR_FILE") return "/tmp/error.json";
    return std::nullopt;
  };
  AgentOptions agent = Parse({"--log_dir=logs", "./train"}, environment).agent;
  EXPECT_EQ(agent.log_dir, "/home/me/logs");
  EXPECT_EQ(agent.command[0], "/home/me/train");
  EXPECT_EQ(agent.error_file, "/tmp/error.json");
  agent = Parse({"--error_file=mine.json", "python3"}, environment).agent;
  EXPECT_EQ(agent.error_file, "/home/me/mine.json");
  EXPECT_EQ(agent.command[0], "python3");
}

TEST_F(RunFlags, HelpIsOnlyBeforeTheProgram) {
  EXPECT_TRUE(Parse({"--help"}).asks_for_help);
  EXPECT_FALSE(Parse({"train", "--help"}).asks_for_help);
  EXPECT_THAT(RunHelpText(), HasSubstr("--max_restarts"));
}

TEST_F(RunFlags, HelpExplainsEveryFlagOnce) {
  const std::string help = RunHelpText();
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (!std::string(flag->Filename()).ends_with("launch/flags/run_flags.cc")) continue;
    const std::string entry = "\n  --" + std::string(name) + " ";
    EXPECT_NE(help.find(entry), std::string::npos) << name << " is in no group, or too long";
    EXPECT_EQ(help.find(entry), help.rfind(entry)) << name << " is explained twice";
  }
}

TEST_F(RunFlags, BadOnesAreTold) {
  EXPECT_THAT(Error({}), HasSubstr("no program to run"));
  EXPECT_THAT(Error({"--nproc=2", "x"}), HasSubstr("unknown flag '--nproc'"));
  EXPECT_THAT(Error({"--nproc_per_node=0", "x"}), HasSubstr("--nproc_per_node=0: expected"));
  EXPECT_THAT(Error({"--max_restarts=-1", "x"}), HasSubstr("--max_restarts=-1: expected"));
  EXPECT_THAT(Error({"--grace=-1s", "x"}), HasSubstr("--grace=-1s: expected"));
}

TEST_F(RunFlags, StopSignalsAreSomethingToCatchThatMeansNothingElse) {
  EXPECT_EQ(Parse({"--stop_signal=10", "x"}).agent.stop_signal, SIGUSR1);
  EXPECT_THAT(Error({"--stop_signal=KILL", "x"}), HasSubstr("--stop_signal=KILL: expected"));
  EXPECT_THAT(Error({"--stop_signal=USR3", "x"}), HasSubstr("expected a signal"));
  EXPECT_THAT(Error({"--stop_signal=SIGUSR2", "x"}), HasSubstr("flight records"));
}

}  // namespace
}  // namespace launch
