// Where ranks meet, by the variables of torchrun and mpirun.
#include "ddp/store/meeting_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/errors.h"
#include "ddp/store/socket.h"

namespace ddp {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Variables = std::map<std::string, std::string>;

MeetingPlace Read(const Variables& variables) {
  return MeetingPlaceFrom([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// The set that makes a rank, with a change.
Variables Rank(const std::string& name = "RANK", const std::string& value = "1") {
  Variables variables = {
      {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  variables[name] = value;
  return variables;
}

TEST(MeetingPlace, FourVariablesMakeARank) {
  const MeetingPlace place = Read(Rank());
  EXPECT_EQ(place.host, "node7");
  EXPECT_EQ(place.port, 29500);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_FALSE(place.is_hosted);
}

TEST(MeetingPlace, ALauncherMayHoldTheStore) {
  const MeetingPlace place = Read(Rank(kStoreHostedVariable, "[::1]:77"));
  EXPECT_EQ(place.host, "::1");
  EXPECT_EQ(place.port, 77);
  EXPECT_EQ(place.rank, 1);
  EXPECT_TRUE(place.is_hosted);
  EXPECT_THROW(Read(Rank(kStoreHostedVariable, "1")), std::invalid_argument);
}

TEST(MeetingPlace, AddressesStayAsGiven) {
  EXPECT_EQ(Read(Rank("MASTER_ADDR", "fe80::1")).host, "fe80::1");
}

TEST(MeetingPlace, MpirunTellsThePlaceToo) {
  Variables variables = Rank();
  variables.erase("RANK");
  variables.erase("WORLD_SIZE");
  variables["OMPI_COMM_WORLD_RANK"] = "2";
  variables["OMPI_COMM_WORLD_SIZE"] = "3";
  EXPECT_EQ(Read(variables).rank, 2);
  EXPECT_EQ(Read(variables).world_size, 3);
  // Each pair says a place, and half of one is never completed by another's.
  variables["RANK"] = "0";
  EXPECT_THAT([&] { Read(variables); }, ThrowsMessage<std::invalid_argument>(
                                            HasSubstr("WORLD_SIZE is not set, but RANK is")));
}

class MissingVariable : public testing::TestWithParam<std::string> {};

TEST_P(MissingVariable, IsNamed) {
  Variables variables = Rank(GetParam(), "");
  EXPECT_THAT([&] { Read(variables); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(GetParam() + " is not set")));
  variables.erase(GetParam());
  EXPECT_THAT([&] { Read(variables); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(GetParam() + " is not set")));
}

INSTANTIATE_TEST_SUITE_P(All, MissingVariable,
                         testing::Values("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"));

struct BadCase {
  std::string variable, value, expected;
};

class BadVariable : public testing::TestWithParam<BadCase> {};

TEST_P(BadVariable, IsNamedWithItsValueAndWhatIsExpected) {
  const auto& [variable, value, expected] = GetParam();
  EXPECT_THAT([&] { Read(Rank(variable, value)); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr(variable + "=" + value + ": "), HasSubstr(expected))));
}

INSTANTIATE_TEST_SUITE_P(All, BadVariable,
                         testing::Values(BadCase{"RANK", "4", "below WORLD_SIZE=4"},
                                         BadCase{"RANK", "-1", "below"},
                                         BadCase{"RANK", "one", "below"},
                                         BadCase{"RANK", "1.5", "below"},
                                         BadCase{"RANK", "99999999999999999999", "below"},
                                         BadCase{"WORLD_SIZE", "0", "whole number from 1"},
                                         BadCase{"WORLD_SIZE", "4 ", "whole number from 1"},
                                         BadCase{"MASTER_PORT", "http", "1 to 65535"},
                                         BadCase{"MASTER_PORT", "0", "1 to 65535"},
                                         BadCase{"MASTER_PORT", "65536", "1 to 65535"}));

// Two ranks of a job, at `ports`, where others may be already.
void ExpectMeeting(const std::vector<int>& ports, const std::string& token) {
  const auto run = [&](int rank) {
    MeetingPoint point({.host = "127.0.0.1",
                        .port = ports.front(),
                        .further_ports = {ports.begin() + 1, ports.end()},
                        .rank = rank,
                        .world_size = 2,
                        .token = token},
                       std::chrono::seconds(60));
    const std::string peer = std::to_string(1 - rank);
    point.store()->Set(std::to_string(rank), token);
    EXPECT_EQ(point.store()->Get(peer), token);
    point.Leave(std::chrono::seconds(60));
  };
  std::jthread rank_1([&] { run(1); });  // looks for rank 0 before that is there
  run(0);
}

TEST(MeetingPoint, RanksPassOverPortsThatOthersHave) {
  const TcpStoreServer other_job({.host = "127.0.0.1", .token = "job 1"});
  const FileDescriptor silent = Listen("127.0.0.1", 0);  // accepts, and says nothing
  const int free_port = FreePort("127.0.0.1");
  ExpectMeeting({other_job.port(), LocalPort(silent.get()), free_port}, "job 2");
}

TEST(MeetingPoint, JobsWithTheSamePortsNeverMeet) {
  const std::vector<int> ports = {FreePort("127.0.0.1"), FreePort("127.0.0.1"),
                                  FreePort("127.0.0.1")};
  std::vector<std::jthread> jobs;
  for (const char* token : {"job 1", "job 2", "job 3"}) {
    jobs.emplace_back([&, token] { ExpectMeeting(ports, token); });
  }
}

TEST(MeetingPoint, WhoIsThereInRankZerosPlaceIsTold) {
  const TcpStoreServer other_job({.host = "127.0.0.1", .token = "job 1"});
  const int nobody = FreePort("127.0.0.1");
  EXPECT_THAT(
      [&] {
        MeetingPoint({.host = "127.0.0.1",
                      .port = other_job.port(),
                      .further_ports = {nobody},
                      .rank = 1,
                      .world_size = 2,
                      .token = "job 2"},
                     std::chrono::milliseconds(300));
      },
      ThrowsMessage<TimeoutError>(
          AllOf(HasSubstr("rank 0's store didn't come within 0.3 s"),
                HasSubstr("no store at " + FormatAddress("127.0.0.1", other_job.port()) + ": "),
                HasSubstr(FormatAddress("127.0.0.1", nobody)))));
}

}  // namespace
}  // namespace ddp
