#include "ddp/data/idx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <system_error>

#include "ddp/data/idx_testing.h"

namespace ddp {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class IdxFileTest : public testing::Test {
 protected:
  // What reading `bytes` as images throws.
  std::string MessageOf(const std::string& bytes) {
    WriteFile(path_, bytes);
    try {
      ReadIdxFile(path_, 3, "images");
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), StartsWith("'" + path_.string() + "': "));
      return error.what();
    }
    return "";
  }

  const std::filesystem::path path_ = NewFolder() / "file";
  const std::string good_ = IdxBytes({2, 1, 3}, "abcdef");
};

TEST_F(IdxFileTest, ReadsPlainAndCompressedFiles) {
  for (const std::string& bytes : {good_, Gzip(good_)}) {
    WriteFile(path_, bytes);
    const IdxFile file = ReadIdxFile(path_, 3, "images");
    EXPECT_THAT(file.extents, ElementsAre(2, 1, 3));
    EXPECT_THAT(file.elements, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  }
}

TEST_F(IdxFileTest, ReadsFilesLargerThanItsPieces) {
  std::string elements(5'000'000, '\0');
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<char>(i * i >> 7);
  const std::string bytes = IdxBytes({5, 1'000'000}, elements);
  for (const std::string& written : {bytes, Gzip(bytes)}) {
    WriteFile(path_, written);
    const IdxFile file = ReadIdxFile(path_, 2, "rows");
    EXPECT_EQ(std::string(file.elements.begin(), file.elements.end()), elements);
  }
}

TEST_F(IdxFileTest, AnEmptySetIsAFile) {
  WriteFile(path_, IdxBytes({0, 28, 28}, ""));
  EXPECT_TRUE(ReadIdxFile(path_, 3, "images").elements.empty());
}

TEST_F(IdxFileTest, MissingFile) {
  try {
    ReadIdxFile(path_, 3, "images");
    FAIL() << "read a file that isn't there";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
    EXPECT_THAT(error.what(), HasSubstr(path_.string()));
  }
}

TEST_F(IdxFileTest, TruncatedFile) {
  for (const std::string& cut :
       {good_.substr(0, good_.size() - 2), Gzip(good_.substr(0, good_.size() - 2))}) {
    EXPECT_THAT(MessageOf(cut), EndsWith("its header promises 2 x 1 x 3 bytes, but only 4 of 6 "
                                         "bytes follow: it is truncated"));
  }
  EXPECT_THAT(MessageOf(good_.substr(0, 10)),
              EndsWith("expected IDX images, but the file ends within the header"));
  EXPECT_THAT(MessageOf(""), EndsWith("expected IDX images, but the file ends within the header"));
}

TEST_F(IdxFileTest, BytesLeftOver) {
  EXPECT_THAT(MessageOf(good_ + "x"),
              EndsWith("its header promises 2 x 1 x 3 bytes, but more bytes follow"));
}

TEST_F(IdxFileTest, LabelsInThePlaceOfImages) {
  EXPECT_THAT(MessageOf(IdxBytes({2}, "ab")),
              EndsWith("expected IDX images (3 dimensions, magic number 0x00000803), found IDX "
                       "data of 1 dimension (magic number 0x00000801)"));
}

TEST_F(IdxFileTest, SomethingElse) {
  EXPECT_THAT(MessageOf("<html><body>404"),
              EndsWith("found something else (magic number 0x3c68746d)"));
}

// Neither allocates what the header claims nor lets it overflow.
TEST_F(IdxFileTest, AbsurdExtents) {
  EXPECT_THAT(MessageOf(IdxBytes({4'000'000'000, 28, 28}, "abc")),
              EndsWith("promises 4000000000 x 28 x 28 bytes, but only 3 of 3136000000000 bytes "
                       "follow: it is truncated"));
  EXPECT_THAT(MessageOf(Gzip(IdxBytes({4'000'000'000, 28, 28}, "abc"))), EndsWith("truncated"));
  EXPECT_THAT(MessageOf(IdxBytes({4'000'000'000, 4'000'000'000, 4'000'000'000}, "abc")),
              EndsWith("bytes, more than any file holds"));
}

TEST_F(IdxFileTest, DamagedCompression) {
  std::string flipped = Gzip(IdxBytes({2, 5, 10}, std::string(100, 'x')));
  flipped[flipped.size() - 6] ^= 1;  // the checksum
  EXPECT_THAT(MessageOf(flipped),
              HasSubstr("its gzip compression is damaged: incorrect data check"));
  const std::string whole = Gzip(good_);
  EXPECT_THAT(MessageOf(whole.substr(0, whole.size() - 12)),
              HasSubstr("its gzip compression is damaged: unexpected end of file"));
}

}  // namespace
}  // namespace ddp
