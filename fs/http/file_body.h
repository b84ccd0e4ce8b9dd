// A file as the body of a response: all of it, a range, or several (RFC 9110, section 14).
#pragma once

#include <memory>
#include <string_view>

#include "fs/http/protocol/conditions.h"
#include "fs/http/protocol/message.h"

namespace weightfs::httpd {

/// Adds the bytes of `file` with their fields, and sets the status: to 206 for the ranges that the request may have by
/// `verdict`, to 416 if there are none such bytes. Nothing is read. `type`: of the file.
void add_file(Response& response, const Request& request, const std::shared_ptr<OpenFile>& file, Verdict verdict,
              std::string_view type);

}  // namespace weightfs::httpd
