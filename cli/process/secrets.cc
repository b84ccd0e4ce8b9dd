#include "cli/process/secrets.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace weightfs {
namespace {

// An argument may have text before its URL, such as HOST= or other options.
void hide_secrets_of_url(char* argument) {
  const std::string_view text(argument);
  const size_t scheme = text.find("://");
  if (scheme == text.npos) return;
  const size_t host = scheme + 3;
  const size_t path = std::min(text.find_first_of("/?#", host), text.size());
  if (const size_t at = text.substr(0, path).rfind('@'); at != text.npos && at > host)
    std::fill(argument + host, argument + at, '*');
  if (const size_t query = text.find('?', host); query != text.npos)
    std::fill(argument + query + 1, argument + text.size(), '*');
}

}  // namespace

void hide_memory() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

std::vector<std::string> take_arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  for (int i = 1; i < argc; ++i) hide_secrets_of_url(argv[i]);
  return words;
}

void forget_logins() {
  for (const char* const name : {"AWS_ACCESS_KEY_ID",
                                 "AWS_SECRET_ACCESS_KEY",
                                 "AWS_SESSION_TOKEN",
                                 "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                 "HF_TOKEN",
                                 "HUGGING_FACE_HUB_TOKEN",
                                 "MODELSCOPE_API_TOKEN",
                                 "AZURE_STORAGE_CONNECTION_STRING",
                                 "AZURE_STORAGE_ACCOUNT_KEY",
                                 "AZURE_STORAGE_ACCESS_KEY",
                                 "AZURE_STORAGE_KEY",
                                 "AZURE_STORAGE_SAS_TOKEN",
                                 "AZURE_CLIENT_SECRET",
                                 "IDENTITY_HEADER",
                                 "MSI_SECRET",
                                 "http_proxy",
                                 "HTTP_PROXY",
                                 "https_proxy",
                                 "HTTPS_PROXY",
                                 "all_proxy",
                                 "ALL_PROXY"}) {
    char* const value = std::getenv(name);
    if (value == nullptr) continue;
    ::explicit_bzero(value, std::strlen(value));
    ::unsetenv(name);
  }
}

}  // namespace weightfs
