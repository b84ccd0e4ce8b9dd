// What a server says of a refusal, as errors show it: the server may be hostile, and may repeat the request.
#pragma once

#include <string>
#include <string_view>

namespace weightfs::download {

/// `text` as a printable text of about 300 bytes, with "..." if it is longer. Without what may be secret: queries of
/// URLs, what follows "Basic" or "Bearer", and names of 20 characters or more with letters and digits.
std::string shown_reason(std::string_view text);

}  // namespace weightfs::download
