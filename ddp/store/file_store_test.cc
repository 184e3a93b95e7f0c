#include "ddp/store/file_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class FileStoreTest : public testing::Test {
 protected:
  FileStoreTest() { std::remove(path_.c_str()); }

  std::string ErrorOfOpening(const FileStoreOptions& options) {
    try {
      FileStore store(path_, options);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  const std::string path_ =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(FileStoreTest, ForgetsAnEarlierRun) {
  { FileStore(path_).Set("address", "old"); }
  FileStore store(path_);
  EXPECT_FALSE(store.Check({"address"}));
  store.Set("address", "new");
  EXPECT_EQ(FileStore(path_).Get("address"), "new");
}

TEST_F(FileStoreTest, ARunIdKeepsWhatWasSet) {
  { FileStore(path_, {.run_id = "17"}).Set("key", "value"); }
  EXPECT_EQ(FileStore(path_, {.run_id = "17"}).Get("key"), "value");
  EXPECT_FALSE(FileStore(path_, {.run_id = "18"}).Check({"key"}));
}

TEST_F(FileStoreTest, TwoRunsAtOnceAreAnError) {
  FileStore store(path_, {.run_id = "17"});
  store.Set("key", "value");
  EXPECT_THAT(ErrorOfOpening({.run_id = "18"}), HasSubstr("in use by run '17', this is run '18'"));
  EXPECT_EQ(store.Get("key"), "value");
}

TEST_F(FileStoreTest, LeavesOtherFilesAlone) {
  const std::string text = "Dear diary, today I trained a model.\n";
  std::ofstream(path_) << text;
  EXPECT_THAT(ErrorOfOpening({}), HasSubstr("is not a store's file"));
  std::ifstream file(path_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST_F(FileStoreTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_THROW(FileStore("/no/such/folder/store"), std::system_error);
}

TEST_F(FileStoreTest, HalfARecordIsDropped) {
  FileStore store(path_);
  store.Set("key", "value");
  std::ofstream(path_, std::ios::app) << "\x20";  // as from a process that was killed
  EXPECT_EQ(FileStore(path_).Get("key"), "value");
  store.Set("next", "one");
  EXPECT_EQ(FileStore(path_).Get("next"), "one");
}

TEST_F(FileStoreTest, HalfAHeaderIsDropped) {
  { FileStore(path_, {.run_id = "17"}).Set("key", "value"); }
  for (const int size : {34, 20, 6}) {
    std::filesystem::resize_file(path_, size);
    EXPECT_FALSE(FileStore(path_, {.run_id = "18"}).Check({"key"})) << size;
  }
}

// Processes rather than threads, on a left-over file; the winner of the start clears it once.
TEST_F(FileStoreTest, ManyProcessesStartAtOnce) {
  constexpr int kProcesses = 8;
  { FileStore(path_).Add("joined", 100); }
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      FileStore store(path_, {.timeout = 60s});
      store.Set(fmt::format("done/{}", store.Add("joined", 1)), "");
      // Nobody leaves before the last has come, or the file would count as left over.
      store.Wait({fmt::format("done/{}", kProcesses)});
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace ddp
