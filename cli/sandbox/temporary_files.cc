#include "cli/sandbox/temporary_files.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/os/tmpfile.h"

namespace weightfs::sandbox {

BrokerReply open_temporary_file(std::string_view argument) {
  const auto places = tmpfile_directories();
  const size_t index = argument.size() == 1 ? static_cast<size_t>(argument[0] - '0') : places.size();
  if (index >= places.size()) return {EINVAL};
  Descriptor file(open_tmpfile(places[index]));
  const int error = file ? 0 : errno;
  return {error, {}, std::move(file)};
}

void use_broker_for_temporary_files(const Broker& broker) {
  set_tmpfile_opener([&broker](const std::string& directory) {
    const auto places = tmpfile_directories();
    const auto index = std::find(places.begin(), places.end(), directory) - places.begin();
    auto reply = broker.ask(kOpenTemporaryFile, std::to_string(index));
    if (reply && reply->descriptor) return reply->descriptor.release();
    errno = reply && reply->status > 0 ? reply->status : EIO;
    return -1;
  });
}

}  // namespace weightfs::sandbox
