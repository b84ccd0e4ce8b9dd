// The responses of the API of the Hugging Face Hub.
#pragma once

#include <string>
#include <vector>

#include "cache/download/request_with_retry.h"
#include "protocols/huggingface.h"
#include "protocols/huggingface/name.h"

namespace weightfs::huggingface {

/// The user's token: $HF_TOKEN, $HUGGING_FACE_HUB_TOKEN, or the content of token_path(). `from` is for messages. Empty
/// with $HF_HUB_DISABLE_IMPLICIT_TOKEN. Fails with unsupported if it is not a token.
struct Token {
  std::string text;
  std::string from;
};
Result<Token> token_of_user();

/// Reads a response about a revision.
Result<Revision> parse_revision(const std::string& text);

/// Reads a page of the list: an array of files and directories.
Result<std::vector<ListedFile>> parse_files(const std::string& text);

/// The URL of the next page of a list: that of the Link header with rel="next", on the server of `endpoint`. Empty if
/// there is none.
std::string next_page(const http::Response& page, const std::string& endpoint);

/// The error for a response that has another status than 200.
Error error_of(const Hub& hub, const Name& name, const download::Response& response);

}  // namespace weightfs::huggingface
