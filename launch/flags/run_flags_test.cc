#include "launch/flags/run_flags.h"

#include <absl/flags/reflection.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace launch {
namespace {

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
  const AgentOptions agent = Parse({"--max_restarts=3", "--max_attempts_without_progress=5",
                                    "--grace=90s", "--stop_signal=SIGWINCH", "true"})
                                 .agent;
  EXPECT_EQ(agent.restarts.max_restarts, 3);
  EXPECT_EQ(agent.restarts.max_attempts_without_progress, 5);
  EXPECT_EQ(agent.grace, std::chrono::seconds(90));
  EXPECT_EQ(agent.stop_signal, SIGWINCH);
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

TEST_F(RunFlags, BadOnesAreTold) {
  EXPECT_THAT(Error({}), HasSubstr("no program to run"));
  EXPECT_THAT(Error({"--nproc=2", "x"}), HasSubstr("unknown flag '--nproc'"));
  EXPECT_THAT(Error({"--nproc_per_node=0", "x"}), HasSubstr("--nproc_per_node=0: expected"));
  EXPECT_THAT(Error({"--max_restarts=-1", "x"}), HasSubstr("--max_restarts=-1: expected"));
  EXPECT_THAT(Error({"--grace=-1s", "x"}), HasSubstr("--grace=-1s: expected"));
}

TEST_F(RunFlags, StopSignalsAreSomethingToCatchThatMeansNothingElse) {
  EXPECT_EQ(Parse({"--stop_signal=10", "x"}).agent.stop_signal, SIGUSR1);
  EXPECT_THAT(Error({"--stop_signal=KILL", "x"}), HasSubstr("--stop_signal='KILL': expected"));
  EXPECT_THAT(Error({"--stop_signal=USR3", "x"}), HasSubstr("expected a signal"));
  EXPECT_THAT(Error({"--stop_signal=SIGUSR2", "x"}), HasSubstr("flight records"));
}

}  // namespace
}  // namespace launch
