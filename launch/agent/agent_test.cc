// The agent from outside, with small shell programs as ranks.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "launch/agent/file_descriptor.h"
#include "launch/testing/subprocess.h"

namespace launch {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> Agent(int num_ranks, const std::string& script) {
  return {"launch/agent/agent_main", std::to_string(num_ranks), "/bin/sh", "-c", script};
}

// Ranks that print their process id and then stay.
std::vector<int> WaitForPids(Subprocess* agent, size_t count) {
  std::vector<int> pids;
  for (const std::string& line : agent->WaitForLines(count)) pids.push_back(std::stoi(line));
  EXPECT_EQ(pids.size(), count);
  return pids;
}

TEST(Agent, RanksKnowWhoTheyAre) {
  const ProgramOutput output = RunProgram(Agent(
      2,
      "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $NODE_RANK, $GROUP_RANK,"
      " at $MASTER_ADDR, restart $DDP_RESTART_COUNT, $TORCHELASTIC_RESTART_COUNT;"
      "test $MASTER_PORT -gt 0 && test \"$DDP_RUN_ID\" = \"$TORCHELASTIC_RUN_ID\" &&"
      " test ${DDP_STORE_HOSTED#127.0.0.1:} -ne $MASTER_PORT"));
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err, "");
  EXPECT_THAT(output.out_lines(),
              UnorderedElementsAre("0 of 2, 0 of 2, node 0, 0, at 127.0.0.1, restart 0, 0",
                                   "1 of 2, 1 of 2, node 0, 0, at 127.0.0.1, restart 0, 0"));
}

TEST(Agent, StreamsStaySeparate) {
  const ProgramOutput output = RunProgram(Agent(1, "echo out; echo err >&2"));
  EXPECT_EQ(output.out, "out\n");
  EXPECT_EQ(output.err, "err\n");
}

TEST(Agent, OtherRanksReadNothing) {
  const ProgramOutput output = RunProgram(Agent(3, "test $RANK = 0 || cat"));
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.out, "");
}

TEST(Agent, UnfinishedLinesAreFinished) {
  const ProgramOutput output = RunProgram(Agent(2, "printf 'rank %d' $RANK"));
  EXPECT_THAT(output.out_lines(), UnorderedElementsAre("rank 0", "rank 1"));
}

TEST(Agent, LinesAreNotTorn) {
  // printf flushes when its buffer is full, in the middle of a line.
  const ProgramOutput output = RunProgram(Agent(
      2,
      "exec awk -v r=$RANK 'BEGIN { for (i = 0; i < 10000; i++)"
      " printf \"rank %d line %05d of ten thousand, and some more text to fill it\\n\", r, i }'"));
  std::set<std::string> expected;
  for (int rank : {0, 1}) {
    for (int i = 0; i < 10000; ++i) {
      expected.insert(fmt::format(
          "rank {} line {:05} of ten thousand, and some more text to fill it", rank, i));
    }
  }
  const std::vector<std::string> lines = output.out_lines();
  ASSERT_EQ(lines.size(), 20000u);
  EXPECT_TRUE(std::set<std::string>(lines.begin(), lines.end()) == expected);
}

TEST(Agent, ExitCodeAndLastLineNameTheFailedRank) {
  const ProgramOutput output = RunProgram(
      Agent(3, "test $RANK = 1 && { echo out; echo going down >&2; exit 3; }; exec sleep 100"));
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_EQ(output.out, "out\n");
  EXPECT_EQ(output.err, "going down\nrank 1 failed: exit code 3\n");
}

TEST(Agent, SignalsAreNamed) {
  const ProgramOutput output = RunProgram(Agent(2, "test $RANK = 1 && kill -9 $$; exec sleep 100"));
  EXPECT_EQ(output.exit_code, 137);
  EXPECT_EQ(output.last_error(), "rank 1 failed: killed by signal 9 (Killed)");
}

TEST(Agent, RanksThatIgnoreSigtermAreKilled) {
  // Rank 1 fails once rank 0 is deaf: it waits at the FIFO.
  const std::string fifo = testing::TempDir() + "/deaf";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const ProgramOutput output = RunProgram(
      Agent(2, fmt::format("if test $RANK = 0; then trap '' TERM; echo >{0}; exec sleep 100; fi;"
                           "read line <{0}; exit 4",
                           fifo)));
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_EQ(output.last_error(), "rank 1 failed: exit code 4");
}

// A rank's report, as Encode() writes it. (A shell knows only descriptors below 10 by number.)
std::string Report(const std::string& text) {
  return "echo \"" + text + "\" >/dev/fd/$DDP_REPORT_FD";
}

TEST(Agent, ReportsChooseTheRootCause) {
  // Rank 0 ends first, but only because it lost rank 1, which takes until then to fall.
  const std::string fifo = testing::TempDir() + "/pid";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const ProgramOutput output =
      RunProgram(Agent(2, fmt::format("trap '' TERM;"
                                      "if test $RANK = 0; then echo $$ >{0}; {1}; exit 1; fi;"
                                      "read pid <{0}; while kill -0 $pid; do :; done; {2}; exit 1",
                                      fifo, Report("1000 1 lost rank 1"), Report("2000 -1 boom"))));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.last_error(), "rank 1 failed: boom");
}

TEST(Agent, ARankThatLeavesEarlyIsNamed) {
  const ProgramOutput output =
      RunProgram(Agent(2, "test $RANK = 1 && exit 0; " + Report("1000 1 lost it") + "; exit 1"));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.last_error(), "rank 1 left early: rank 0 still needed it: lost it");
}

// A FIFO that is full and that nobody reads.
class StuckFifo {
 public:
  StuckFifo() {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    fd_ = FileDescriptor(open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    while (write(fd_.get(), "x", 1) == 1) {
    }
  }
  ~StuckFifo() { unlink(path_.c_str()); }

  // An agent with its output there; its ranks reach the test by descriptor 3.
  std::vector<std::string> Agent(int num_ranks, const std::string& script) const {
    return {"/bin/sh",
            "-c",
            "exec launch/agent/agent_main $1 /bin/sh -c \"$2\" 3>&1 >$0",
            path_,
            std::to_string(num_ranks),
            script};
  }

 private:
  const std::string path_ = testing::TempDir() + "/stuck";
  FileDescriptor fd_;
};

TEST(Agent, StopsThoughItsOutputIsStuck) {
  const StuckFifo fifo;
  Subprocess agent(fifo.Agent(2, "echo stuck; echo $$ >&3; exec sleep 100"));
  WaitForPids(&agent, 2);
  agent.Signal(SIGTERM);
  EXPECT_EQ(agent.Wait().exit_code, 143);
}

TEST(Agent, NoticesADeadRankThoughItsOutputIsStuck) {
  const StuckFifo fifo;
  const std::string ready = testing::TempDir() + "/ready";
  ASSERT_EQ(mkfifo(ready.c_str(), 0600), 0);
  Subprocess agent(fifo.Agent(
      2, fmt::format("echo stuck; if test $RANK = 1; then read line <{0}; exit 3; fi;"
                     "trap 'echo ended >&3; exit 0' TERM; echo >{0}; while :; do :; done",
                     ready)));
  EXPECT_THAT(agent.WaitForLines(1), ElementsAre("ended"));
  // Only its output is left then. The signal doesn't hide what went before.
  agent.Signal(SIGTERM);
  const ProgramOutput output = agent.Wait();
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_EQ(output.last_error(), "rank 1 failed: exit code 3");
}

class StopSignal : public testing::TestWithParam<int> {};

TEST_P(StopSignal, EndsAllRanks) {
  Subprocess agent(Agent(2, "echo $$; exec sleep 100"));
  const std::vector<int> pids = WaitForPids(&agent, 2);
  agent.Signal(GetParam());
  const ProgramOutput output = agent.Wait();
  EXPECT_EQ(output.exit_code, 128 + GetParam());
  EXPECT_THAT(output.last_error(), HasSubstr(fmt::format("stopped by signal {}", GetParam())));
  for (const int pid : pids) EXPECT_EQ(kill(pid, 0), -1) << pid << " was left behind";
}

INSTANTIATE_TEST_SUITE_P(All, StopSignal, testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST(Agent, ASecondSignalDoesNotWait) {
  Subprocess agent(
      Agent(1, "trap 'echo not yet' INT; trap '' TERM; echo ready; while :; do sleep 0.01; done"));
  agent.WaitForLines(1);
  agent.Signal(SIGINT);
  agent.WaitForLines(2);
  agent.Signal(SIGTERM);
  EXPECT_EQ(agent.Wait().exit_code, 130);
}

TEST(Agent, RanksDieWithTheAgent) {
  Subprocess agent(Agent(3, "trap '' TERM HUP INT; echo $$; exec sleep 100"));
  const std::vector<int> pids = WaitForPids(&agent, 3);
  agent.Signal(SIGKILL);
  for (const int pid : pids) WaitForEnd(pid);
  EXPECT_EQ(agent.Wait().exit_code, 137);
}

// Starts a process that leaves the session, and whose parent ends at once; prints its id.
constexpr char kStray[] = "(setsid sleep 1000 >/dev/null 2>&1 & echo $!); ";

class Strays : public testing::TestWithParam<std::string> {};

TEST_P(Strays, EndWithTheirRanks) {
  const ProgramOutput output = RunProgram(Agent(1, kStray + GetParam()));
  ASSERT_EQ(output.out_lines().size(), 1u) << output.err;
  EXPECT_EQ(kill(std::stoi(output.out), 0), -1) << output.out;
}

INSTANTIATE_TEST_SUITE_P(All, Strays, testing::Values("exit 0", "exit 3", "kill -9 $$"));

TEST(Agent, StraysEndWhenTheAgentIsStopped) {
  Subprocess agent(Agent(2, kStray + std::string("exec sleep 1000")));
  const std::vector<int> strays = WaitForPids(&agent, 2);
  agent.Signal(SIGTERM);
  EXPECT_EQ(agent.Wait().exit_code, 143);
  for (const int pid : strays) EXPECT_EQ(kill(pid, 0), -1) << pid;
}

TEST(Agent, StraysEndWhenTheAgentIsKilled) {
  Subprocess agent(Agent(2, kStray + std::string("exec sleep 1000")));
  const std::vector<int> strays = WaitForPids(&agent, 2);
  agent.Signal(SIGKILL);
  EXPECT_EQ(agent.Wait().exit_code, 137);
  for (const int pid : strays) WaitForEnd(pid);
}

TEST(Agent, AKilledAgentTakesTheAgentsBelowItAlong) {
  Subprocess agent({"launch/agent/agent_main", "1", "launch/agent/agent_main", "1", "/bin/sh", "-c",
                    kStray + std::string("exec sleep 1000")});
  const std::vector<int> strays = WaitForPids(&agent, 1);
  agent.Signal(SIGKILL);
  EXPECT_EQ(agent.Wait().exit_code, 137);
  for (const int pid : strays) WaitForEnd(pid);
}

TEST(Agent, ASignalToOneRankEndsAll) {
  const ProgramOutput output =
      RunProgram(Agent(3, "test $RANK = 1 && kill -TERM $$; exec sleep 1000"));
  EXPECT_EQ(output.exit_code, 143);
  EXPECT_EQ(output.last_error(), "rank 1 failed: killed by signal 15 (Terminated)");
}

// A process that was the agent's child before it became an agent, and one of the same name.
TEST(Agent, OtherProcessesAreLeftAlone) {
  Subprocess other({"sleep", "1000"});
  const ProgramOutput output =
      RunProgram({"/bin/sh", "-c",
                  "sleep 1000 >/dev/null 2>&1 & echo $!; exec launch/agent/agent_main 2 false"});
  EXPECT_EQ(output.exit_code, 1);
  const int child = std::stoi(output.out);
  EXPECT_EQ(kill(child, 0), 0);
  EXPECT_EQ(kill(other.pid(), 0), 0);
  kill(child, SIGKILL);
  other.Signal(SIGKILL);
  EXPECT_EQ(other.Wait().exit_code, 137);
}

TEST(Agent, RequeueIsPassedOn) {
  const ProgramOutput output = RunProgram(Agent(2, "exit 75"));
  EXPECT_EQ(output.exit_code, 75);
  EXPECT_EQ(output.last_error(), "the ranks ask to be started again in a new job");
}

// What ranks make of a signal, sent when both have said that they are ready.
ProgramOutput SignalTo(const std::string& script, int signal) {
  Subprocess agent(Agent(2, script + "; echo ready; while :; do sleep 0.01; done"));
  agent.WaitForLines(2);
  agent.Signal(signal);
  return agent.Wait();
}

TEST(Agent, RanksMaySaveOnSigterm) {
  const ProgramOutput output = SignalTo("trap 'sleep 0.1; echo saved; exit 75' TERM", SIGTERM);
  EXPECT_EQ(output.exit_code, 75);
  EXPECT_THAT(output.out_lines(), ElementsAre("ready", "ready", "saved", "saved"));
  EXPECT_EQ(output.last_error(),
            "stopped by signal 15 (Terminated); the ranks ask to be started again in a new job");
}

TEST(Agent, ARankThatCannotSaveOnSigtermSaysWhy) {
  const ProgramOutput output =
      SignalTo("trap 'test $RANK = 0 && exit 75; " + Report("2000 -1 disk full") + "; exit 1' TERM",
               SIGTERM);
  EXPECT_EQ(output.exit_code, 143);
  EXPECT_EQ(output.last_error(), "stopped by signal 15 (Terminated); rank 1 failed: disk full");
}

TEST(Agent, ARankThatEndsWithZeroOnSigtermIsNotDone) {
  EXPECT_EQ(SignalTo("trap 'exit 0' TERM", SIGTERM).exit_code, 143);
}

TEST(Agent, RanksDecideOnUserSignals) {
  EXPECT_EQ(SignalTo("trap 'exit 75' USR1", SIGUSR1).exit_code, 75);
  const ProgramOutput output = SignalTo("trap 'echo got it; exit 0' USR1", SIGUSR1);
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out_lines(), ElementsAre("ready", "ready", "got it", "got it"));
}

TEST(Agent, RanksGetTheSignalThatTheAgentGot) {
  EXPECT_EQ(SignalTo("trap 'exit 75' INT", SIGINT).exit_code, 75);
  EXPECT_EQ(SignalTo("trap 'exit 75' HUP", SIGHUP).exit_code, 75);
}

TEST(Agent, ProgramsThatCannotRunAreNamed) {
  const ProgramOutput output = RunProgram({"launch/agent/agent_main", "2", "/no/such/program"});
  EXPECT_EQ(output.exit_code, 127);
  EXPECT_THAT(output.last_error(),
              EndsWith("failed: can't execute /no/such/program: No such file or directory"));
}

TEST(Agent, ALowLimitOfDescriptorsIsRaised) {
  const ProgramOutput output = RunProgram(
      {"/bin/sh", "-c", "ulimit -Sn 16; exec launch/agent/agent_main 8 /bin/sh -c 'exec sleep 0'"});
  EXPECT_EQ(output.err, "");
  EXPECT_EQ(output.exit_code, 0);
}

TEST(Agent, AFixedLimitOfDescriptorsIsNamed) {
  const ProgramOutput output = RunProgram(
      {"/bin/sh", "-c", "ulimit -n 16; exec launch/agent/agent_main 8 /bin/sh -c 'exec sleep 0'"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("ulimit -n"));
}

TEST(Agent, ZeroRanksAreRefused) {
  const ProgramOutput output = RunProgram(Agent(0, "echo no"));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.last_error(), "number of ranks: 0; at least 1 is needed");
}

}  // namespace
}  // namespace launch
