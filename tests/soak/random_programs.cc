// Random training programs on 2 to 4 ranks and on one process: equal weights after every step, or
// an error on all ranks, and never a hang.
//
//   bazel run //tests/soak:random_programs                              1000 programs
//   bazel run //tests/soak:random_programs -- --programs=10000 --seed=7 --ranks=3
//   bazel run //tests/soak:random_programs -- --seed=7 --only=41        one of them again
//
// What fails is printed as a program, a line for each instruction. `bazel test //...` runs a small
// sample.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/soak/random_program.h"
#include "tests/soak/random_run.h"

ABSL_FLAG(int64_t, programs, 1000, "how many");
ABSL_FLAG(uint64_t, seed, 1, "of the programs");
ABSL_FLAG(int, ranks, 0, "of every program; 0: 2 to 4, by chance");
ABSL_FLAG(int64_t, only, -1, "run and print this one only");

namespace ddp::soak {
namespace {

TEST(RandomPrograms, AreWhatOneProcessDoesOrRaiseOnAllRanks) {
  const int64_t only = absl::GetFlag(FLAGS_only);
  const int64_t begin = only < 0 ? 0 : only;
  const int64_t end = only < 0 ? absl::GetFlag(FLAGS_programs) : only + 1;
  int num_raised = 0, num_wrong = 0;
  for (int64_t i = begin; i < end; ++i) {
    const Program program = MakeProgram(absl::GetFlag(FLAGS_seed), i, absl::GetFlag(FLAGS_ranks));
    if (only >= 0) fmt::print(stderr, "{}", ToText(program));
    num_raised += program.raises();
    const std::string wrong = WrongIn(program);
    num_wrong += !wrong.empty();
    EXPECT_EQ(wrong, "") << ToText(program);
  }
  fmt::print("{} programs: {} must raise on all ranks, {} are compared throughout; {} are wrong\n",
             end - begin, num_raised, end - begin - num_raised, num_wrong);
}

}  // namespace
}  // namespace ddp::soak

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  absl::SetProgramUsageMessage("random training programs, on several ranks and on one");
  absl::ParseCommandLine(argc, argv);
  return RUN_ALL_TESTS();
}
