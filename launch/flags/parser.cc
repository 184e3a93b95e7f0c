#include "launch/flags/parser.h"

#include <absl/flags/commandlineflag.h>
#include <absl/flags/reflection.h>
#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "launch/text/text.h"

namespace launch {
namespace {

std::vector<std::string> KnownFlags(const FlagGroups& groups) {
  std::vector<std::string> known;
  for (const FlagGroup& group : groups) {
    for (const std::string& name : group.flags) known.push_back("--" + name);
  }
  return known;
}

absl::CommandLineFlag& FindFlag(const std::string& name, const FlagGroups& groups) {
  const std::vector<std::string> known = KnownFlags(groups);
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  if (flag == nullptr || std::find(known.begin(), known.end(), "--" + name) == known.end()) {
    throw std::invalid_argument(UnknownName("flag", "--" + name, known) + "; --help explains them");
  }
  return *flag;
}

template <class T>
bool Holds(const absl::CommandLineFlag& flag) {
  return flag.IsOfType<T>() || flag.IsOfType<std::optional<T>>();
}

const char* ExpectedKind(const absl::CommandLineFlag& flag) {
  if (Holds<int64_t>(flag)) return "a whole number";
  if (Holds<double>(flag)) return "a number";
  if (Holds<bool>(flag)) return "true or false";
  if (Holds<absl::Duration>(flag)) return "a duration, such as 90s or 10m";
  return "text";
}

void SetFlag(const std::string& name, const std::string& value, const FlagGroups& groups) {
  absl::CommandLineFlag& flag = FindFlag(name, groups);
  std::string error;
  if (value.empty() && !flag.IsOfType<std::string>()) {
    throw std::invalid_argument(fmt::format("--{}=: expected {}", name, ExpectedKind(flag)));
  }
  if (!flag.ParseFrom(value, &error)) {
    throw std::invalid_argument(
        fmt::format("--{}={}: expected {}", name, value, ExpectedKind(flag)));
  }
}

bool IsFlag(const std::string& argument) {
  const size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
  return dashes == 1 || dashes == 2;
}

// Sets the flag at `i`, and returns how many arguments that took.
size_t SetFlagAt(size_t i, const std::vector<std::string>& arguments, const FlagGroups& groups) {
  const std::string& argument = arguments[i];
  const size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
  const size_t equals = argument.find('=');
  const std::string name = argument.substr(dashes, equals - dashes);
  if (equals != std::string::npos) {
    SetFlag(name, argument.substr(equals + 1), groups);
    return 1;
  }
  if (Holds<bool>(FindFlag(name, groups))) {
    SetFlag(name, "true", groups);
    return 1;
  }
  if (i + 1 == arguments.size()) {
    throw std::invalid_argument(fmt::format("--{} needs a value: --{}=...", name, name));
  }
  SetFlag(name, arguments[i + 1], groups);
  return 2;
}

// "1024,1024"; nothing for an empty text and for flags whose default isn't theirs.
std::string Default(const std::string& name, const absl::CommandLineFlag& flag,
                    const std::map<std::string, std::string>& defaults) {
  const auto other = defaults.find(name);
  const std::string text = other != defaults.end() ? other->second : flag.DefaultValue();
  return text.empty() ? "" : fmt::format(" [{}]", text);
}

}  // namespace

void SetFlags(const std::vector<std::string>& arguments, const FlagGroups& groups) {
  for (size_t i = 0; i < arguments.size();) {
    if (!IsFlag(arguments[i])) {
      throw std::invalid_argument(fmt::format(
          "'{}' is not a flag; flags are --name=value, and --help explains them", arguments[i]));
    }
    i += SetFlagAt(i, arguments, groups);
  }
}

size_t SetLeadingFlags(const std::vector<std::string>& arguments, const FlagGroups& groups) {
  size_t i = 0;
  while (i < arguments.size() && IsFlag(arguments[i])) {
    if (arguments[i] == "--" || AsksForHelp({arguments[i]})) return i + 1;
    i += SetFlagAt(i, arguments, groups);
  }
  return i;
}

std::string DescribeFlags(const FlagGroups& groups,
                          const std::map<std::string, std::string>& defaults) {
  std::string text;
  for (const FlagGroup& group : groups) {
    text += group.title + "\n";
    for (const std::string& name : group.flags) {
      const absl::CommandLineFlag& flag = FindFlag(name, groups);
      text += fmt::format("  --{:<23}{}{}\n", name, flag.Help(), Default(name, flag, defaults));
    }
    text += "\n";
  }
  text.pop_back();
  return text;
}

bool AsksForHelp(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument == "--help" || argument == "-help" || argument == "-h";
  });
}

std::string FromUsersDirectory(const std::string& path, const Environment& environment) {
  const std::optional<std::string> directory = environment("BUILD_WORKING_DIRECTORY");
  if (path.empty() || !directory) return path;
  return (std::filesystem::path(*directory) / path).lexically_normal().string();
}

std::optional<std::vector<int64_t>> ParseWholeNumbers(const std::string& text) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const bool is_number =
        !item.empty() && item.size() < 10 && item.find_first_not_of("0123456789") == item.npos;
    if (!is_number) return std::nullopt;
    numbers.push_back(std::stoll(item));
    begin = end + 1;
  }
  return numbers;
}

}  // namespace launch
