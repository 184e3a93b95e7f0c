#include "slurm/hostlist.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>

namespace slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// A line of testdata/hostlists.tsv.
struct Row {
  std::string list;
  std::string count;  // or "refused"
  std::string hosts;  // or what the message holds
};

std::vector<Row> Rows() {
  std::vector<Row> rows;
  std::ifstream file("slurm/testdata/hostlists.tsv");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream columns(line);
    Row& row = rows.emplace_back();
    std::getline(columns, row.list, '\t');
    std::getline(columns, row.count, '\t');
    std::getline(columns, row.hosts);
  }
  return rows;
}

// The hosts as the table has them: all, or the first three and the last.
std::string Abridged(const std::vector<std::string>& hosts, bool is_abridged) {
  if (!is_abridged) return fmt::format("{}", fmt::join(hosts, " "));
  return fmt::format("{} {} {} ... {}", hosts[0], hosts[1], hosts[2], hosts.back());
}

TEST(Hostlist, AgreesWithSlurmsParser) {
  int num_rows = 0;
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.list);
    ++num_rows;
    if (row.count == "refused") {
      EXPECT_THAT([&] { ExpandHostlist(row.list); },
                  ThrowsMessage<std::invalid_argument>(
                      AllOf(HasSubstr("'" + row.list + "'"), HasSubstr(row.hosts))));
      continue;
    }
    const std::vector<std::string> hosts = ExpandHostlist(row.list);
    EXPECT_EQ(std::to_string(hosts.size()), row.count);
    EXPECT_EQ(Abridged(hosts, row.hosts.find(" ... ") != std::string::npos), row.hosts);
    EXPECT_EQ(ExpandHostlist(CompressHostlist(hosts)), hosts);
  }
  EXPECT_EQ(num_rows, 58);
}

TEST(Hostlist, AnySeparatorAndNoHosts) {
  EXPECT_THAT(ExpandHostlist("a\tb\nc, d,\n"), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(ExpandHostlist(""), IsEmpty());
  EXPECT_THAT(ExpandHostlist(" ,\n"), IsEmpty());
}

TEST(Hostlist, CommasInBracketsDoNotSeparate) {
  EXPECT_THAT(ExpandHostlist("linux[1,2]"), ElementsAre("linux1", "linux2"));
  EXPECT_THAT(ExpandHostlist("a[1,3]b,c[2]"), ElementsAre("a1b", "a3b", "c2"));
}

TEST(Hostlist, OfFourBracketsTheThirdIsSlowest) {
  EXPECT_THAT(ExpandHostlist("[1-2]a[1-2]b[1-2]c[1-2]"),
              ElementsAre("1a1b1c1", "1a1b1c2", "2a1b1c1", "2a1b1c2", "1a2b1c1", "1a2b1c2",
                          "2a2b1c1", "2a2b1c2", "1a1b2c1", "1a1b2c2", "2a1b2c1", "2a1b2c2",
                          "1a2b2c1", "1a2b2c2", "2a2b2c1", "2a2b2c2"));
}

struct BadCase {
  std::string list, message;
};

class BadHostlist : public testing::TestWithParam<BadCase> {};

TEST_P(BadHostlist, IsRefusedWithTheReason) {
  EXPECT_THAT([] { ExpandHostlist(GetParam().list); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadHostlist,
    testing::Values(
        BadCase{"a[0-65535]b[0-65535]", "more than 262144 hosts"},
        BadCase{"a[0-9999]b[0-9999]c[0-9999]d[0-9999]e[0-9999]", "more than 262144 hosts"},
        BadCase{"a[0-65535],b[0-65535],c[0-65535],d[0-65535],e1", "more than 262144 hosts"},
        BadCase{std::string(256, 'a') + "[0-65535]", "more than 255 characters"},
        BadCase{"n[18446744073709551616]", "at most 18 digits"},
        BadCase{"n[1-2-3]", "expected a number or low-high"},
        BadCase{"n[1\n2]", "expected a number or low-high"},
        BadCase{"bgl[000x133]", "multi-dimensional"},
        // A list that is partly good is no good.
        BadCase{"node1,gpu-[a-b]", "'a-b': expected a number"},
        BadCase{"feature{ib}", "functions {...} aren't supported"}));

TEST(Compress, NeighboursShareBrackets) {
  EXPECT_EQ(CompressHostlist({}), "");
  EXPECT_EQ(CompressHostlist({"node5"}), "node5");
  EXPECT_EQ(CompressHostlist({"node01", "node02", "login1"}), "node[01-02],login1");
  EXPECT_EQ(CompressHostlist({"n8", "n9", "n10", "n008", "n009", "n010"}), "n[8-10,008-010]");
  EXPECT_EQ(CompressHostlist({"n09", "n10", "n099", "n100"}), "n[09-10,099-100]");
  EXPECT_EQ(CompressHostlist({"tux2", "tux1", "tux2"}), "tux[2,1-2]");
  EXPECT_EQ(CompressHostlist({"n1-ib", "n2-ib"}), "n1-ib,n2-ib");
  EXPECT_EQ(CompressHostlist({"1", "2", "a"}), "[1-2],a");
  EXPECT_EQ(CompressHostlist({"n1234567890123456789", "n1234567890123456790"}),
            "n1234567890123456789,n1234567890123456790");
}

TEST(Compress, RefusesWhatIsNoName) {
  for (const char* name : {"", "a,b", "a b", "a[1]", "a]", "a{"}) {
    EXPECT_THAT(
        [&] {
          CompressHostlist({"node1", name});
        },
        ThrowsMessage<std::invalid_argument>(
            HasSubstr(fmt::format("'{}' is no name of a host", name))));
  }
}

// Names that make runs and gaps, widths that change, and all kinds of text around the number.
std::string RandomHost(std::mt19937& random) {
  constexpr const char* kPrefixes[] = {"", "n", "node-", "rack1-n", "ip-10-0-0-", "n0"};
  constexpr const char* kSuffixes[] = {"", "", "", "-ib", ".cluster.local"};
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  const std::string host =
      fmt::format("{}{:0{}}{}", kPrefixes[below(6)], below(120), 1 + below(4), kSuffixes[below(5)]);
  return below(10) == 0 ? "login" + host : host;
}

TEST(Compress, ExpandsToTheSameHosts) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> hosts(random() % 200);
    std::generate(hosts.begin(), hosts.end(), [&] { return RandomHost(random); });
    EXPECT_EQ(ExpandHostlist(CompressHostlist(hosts)), hosts);
    // As Slurm has them: sorted, each once.
    const std::set<std::string> sorted(hosts.begin(), hosts.end());
    hosts.assign(sorted.begin(), sorted.end());
    EXPECT_EQ(ExpandHostlist(CompressHostlist(hosts)), hosts);
  }
}

TEST(Compress, RunsLongerThanARangeMayBe) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 70000; ++i) hosts.push_back(fmt::format("n{}", i));
  EXPECT_EQ(CompressHostlist(hosts), "n[0-65535,65536-69999]");
  EXPECT_EQ(ExpandHostlist("n[0-65535,65536-69999]"), hosts);
}

}  // namespace
}  // namespace slurm
