// Opens a URL in the browser of the user.
#pragma once

#include <string>

namespace weightfs {

/// Whether there is a desktop with a browser: xdg-open (or $BROWSER with it), and a display.
bool has_browser();

/// Starts xdg-open and does not wait for it. To be called outside of the sandbox.
void open_in_browser(const std::string& url);

}  // namespace weightfs
