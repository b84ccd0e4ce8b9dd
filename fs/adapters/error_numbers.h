// What the two adapters of the forest answer for an error: an errno of the kernel, and a status of HTTP.
#pragma once

#include "base/result.h"

namespace weightfs {

/// What failed: a name was looked up, or bytes of an existing file or directory were read.
enum class Failed { lookup, read };

/// The errno for a failure. Corrupt data is EIO, because programs do not expect EBADMSG. Nor do they expect EAGAIN from
/// a regular file: Python's read() would return None. Network errors are EHOSTUNREACH, so that readers can retry. A
/// file that is listed exists, even if a server lacks its bytes: only a name is ENOENT.
int errno_of(Failed what, Code code);

/// The status of an HTTP response (RFC 9110, section 15) for a failure: 404 and 403; 502 for wrong bytes of a container
/// or of another server; 503 if a retry may succeed, as of a file that was replaced, and offline; 504 if another server
/// timed out; else 500.
int http_status_of(const Error& error);

}  // namespace weightfs
