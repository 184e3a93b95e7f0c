#include "ddp/store/message.h"

#include <fmt/format.h>

#include <cstring>

namespace ddp {
namespace {

constexpr size_t kSizeBytes = sizeof(uint32_t);
constexpr size_t kFixedBytes = sizeof(uint8_t) + sizeof(int64_t);

template <class T>
void Append(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T Take(std::string_view* bytes) {
  T value;
  if (bytes->size() < sizeof value) throw MalformedMessage("a message ends too early");
  std::memcpy(&value, bytes->data(), sizeof value);
  bytes->remove_prefix(sizeof value);
  return value;
}

std::string TakeString(std::string_view* bytes) {
  const auto size = Take<uint32_t>(bytes);
  if (size > bytes->size()) throw MalformedMessage("a string is longer than its message");
  std::string value(bytes->substr(0, size));
  bytes->remove_prefix(size);
  return value;
}

}  // namespace

std::string Encode(const Message& message) {
  size_t num_bytes = kFixedBytes;
  for (const std::string& string : message.strings) num_bytes += kSizeBytes + string.size();
  if (num_bytes > kMaxMessageBytes) {
    throw std::invalid_argument(fmt::format("{} bytes are too many for a store's value: at most {}",
                                            num_bytes, kMaxMessageBytes));
  }
  std::string bytes;
  bytes.reserve(kSizeBytes + num_bytes);
  Append(&bytes, static_cast<uint32_t>(num_bytes));
  Append(&bytes, message.kind);
  Append(&bytes, message.number);
  for (const std::string& string : message.strings) {
    Append(&bytes, static_cast<uint32_t>(string.size()));
    bytes += string;
  }
  return bytes;
}

std::string Greeting(const std::string& token) {
  return std::string(kClientHello) + Encode({.kind = Message::Kind::kEnter, .strings = {token}});
}

size_t Decode(std::string_view bytes, Message* message) {
  if (bytes.size() < kSizeBytes) return 0;
  const auto num_bytes = Take<uint32_t>(&bytes);
  if (num_bytes > kMaxMessageBytes) throw MalformedMessage("a message is too long");
  if (bytes.size() < num_bytes) return 0;
  std::string_view rest = bytes.substr(0, num_bytes);
  message->kind = Take<Message::Kind>(&rest);
  message->number = Take<int64_t>(&rest);
  message->strings.clear();
  while (!rest.empty()) message->strings.push_back(TakeString(&rest));
  return kSizeBytes + num_bytes;
}

}  // namespace ddp
