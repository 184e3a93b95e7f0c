// A program for the tests here, which does all that ddp_job.sh sees of a trainer: the ranks of a
// Slurm step go through steps together; when one of them is asked to stop (USR1, TERM), all stop
// after the same step, with a checkpoint and exit code 75; from there the next run goes on.
//
//   stand_in --checkpoint_dir=DIR --steps=N [--step_ms=20] [--checkpoint_every=0] [--save=0]
//            [--fail_rank=R] [--resume=auto]
//
// With --save=0 it stops without a checkpoint. Rank --fail_rank exits with 3 after the first step.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "ddp/store/file_store.h"

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kRequeueMe = 75;

volatile std::sig_atomic_t is_asked_to_stop = 0;

std::map<std::string, std::string> ParseFlags(int argc, char** argv) {
  std::map<std::string, std::string> flags = {{"step_ms", "20"}, {"save", "1"}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const size_t equals = flag.find('=');
    flags[flag.substr(2, equals - 2)] = flag.substr(equals + 1);
  }
  return flags;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "0" : value;
}

struct State {
  int64_t step = 0;
  uint64_t sum = 0;  // depends on all steps, and their order

  void Advance() { sum = 31 * sum + ++step; }
};

State Load(const fs::path& directory) {
  State newest;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().string().rfind("step-", 0) != 0) continue;
    State state;
    std::ifstream(entry.path() / "state") >> state.step >> state.sum;
    if (state.step > newest.step) newest = state;
  }
  return newest;
}

void Save(const State& state, const fs::path& directory) {
  const fs::path temporary = directory / ".saving";
  fs::create_directory(temporary);
  std::ofstream(temporary / "state") << state.step << " " << state.sum;
  fs::rename(temporary, directory / fmt::format("step-{:08}", state.step));
}

class Ranks {
 public:
  explicit Ranks(const fs::path& directory)
      : store_(directory / "meeting",
               {.timeout = 60s,
                .run_id = Variable("SLURM_JOB_ID") + "." + Variable("SLURM_RESTART_COUNT")}) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Whether `flag` is set on any rank. A call of all ranks; `name` is new each time.
  bool Any(const std::string& name, bool flag) {
    store_.Set(fmt::format("{}/{}", name, rank_), flag ? "yes" : "no");
    bool any = false;
    for (int peer = 0; peer < size_; ++peer) {
      any |= store_.Get(fmt::format("{}/{}", name, peer)) == "yes";
    }
    return any;
  }

 private:
  const int rank_ = std::stoi(Variable("SLURM_PROCID"));
  const int size_ = std::stoi(Variable("SLURM_STEP_NUM_TASKS"));
  ddp::FileStore store_;
};

template <class... Arguments>
void Print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print(format, std::forward<Arguments>(arguments)...);
  std::fflush(stdout);
}

int Run(std::map<std::string, std::string> flags) {
  const fs::path directory = flags.at("checkpoint_dir");
  const int64_t steps = std::stoll(flags.at("steps"));
  const int64_t checkpoint_every = std::atoll(flags["checkpoint_every"].c_str());
  const auto step_time = std::chrono::milliseconds(std::stoi(flags["step_ms"]));
  Ranks ranks(directory);
  State state = Load(directory);
  Print("rank {} of {} on {} with pid {} from step {}\n", ranks.rank(), ranks.size(),
        Variable("SLURMD_NODENAME"), getpid(), state.step);
  while (state.step < steps) {
    std::this_thread::sleep_for(step_time);
    state.Advance();
    if (flags["fail_rank"] == std::to_string(ranks.rank())) return 3;
    const bool stops = ranks.Any(fmt::format("stop/{}", state.step), is_asked_to_stop);
    const bool saves =
        stops ? flags["save"] == "1" : checkpoint_every > 0 && state.step % checkpoint_every == 0;
    if (ranks.rank() == 0 && saves) Save(state, directory);
    if (ranks.rank() == 0) Print("step {}\n", state.step);
    if (!stops) continue;
    ranks.Any("saved", true);
    return kRequeueMe;
  }
  if (ranks.rank() == 0) Print("done: {} steps, sum {}\n", state.step, state.sum);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int signal : {SIGUSR1, SIGTERM}) std::signal(signal, [](int) { is_asked_to_stop = 1; });
  return Run(ParseFlags(argc, argv));
}
