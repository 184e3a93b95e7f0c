#include "ddp/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace ddp {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(AtomicFile, ReplacesTheWholeFile) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "atomic";
  std::filesystem::create_directory(folder);
  const std::string path = folder / "file";
  WriteFileAtomically(path, "old and long");
  WriteFileAtomically(path, "new");
  EXPECT_EQ(Read(path), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(AtomicFile, NamesUnwritablePaths) {
  EXPECT_THROW(CheckWritable("/no/such/folder/file"), std::system_error);
  EXPECT_THROW(CheckWritable(testing::TempDir()), std::system_error);
  EXPECT_THROW(CheckWritable(testing::TempDir() + "/not_there/"), std::system_error);
  EXPECT_THROW(CheckWritable("."), std::system_error);
  EXPECT_NO_THROW(CheckWritable(testing::TempDir() + "/file"));
  EXPECT_NO_THROW(CheckWritable(""));
  try {
    WriteFileAtomically("/no/such/folder/file", "text");
    FAIL() << "nothing was thrown";
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("can't write /no/such/folder/file"));
  }
}

TEST(AtomicFile, WithoutCommitTheOldFileStays) {
  const std::string path = testing::TempDir() + "/uncommitted";
  WriteFileAtomically(path, "old");
  {
    AtomicFile file(path);
    file.Write("half of the n");
  }
  EXPECT_EQ(Read(path), "old");
}

}  // namespace
}  // namespace ddp
