# Converts the output of `lowdown -Tman` to a page that groff, mandoc and apropos(1) render well: a heading on one line, a
# definition list as .TP, and a hyphen as one that can be typed (\-), so that "--cache-size" can be copied from the page.
# Lines are held from .LP on, as only what follows them tells whether they are a term.

# A name must not be hyphenated: al-low_other.
/^[.]TH / { print ".nr HY 0"; print; print ".nh"; next }

/^[.]SH$|^[.]SS$/ { release(); heading = $0; next }
heading { print heading, typed($0); heading = ""; opened = 1; next }

/^[.]LP$/ { release(); holding = 1; next }
holding && /^[.]if n \\$/ { getline; getline; getline; definition = 1; next }
holding && definition && /^[.]IP "" / {
  print ".TP 5"
  print held
  forget()
  opened = 0
  next
}
holding && !/^[.]/ { held = held (held == "" ? "" : " ") typed($0); lines = lines typed($0) "\n"; next }

{ release(); opened = 0; print /^[.']/ ? $0 : typed($0) }
END { release() }

function typed(line) {
  gsub(/\\-/, "-", line)  # as newer versions of lowdown write it
  gsub(/-/, "\\-", line)
  gsub(/\\fC/, "\\fB", line)
  return line
}

function forget() {
  holding = definition = 0
  held = lines = ""
}

function release() {
  if (holding) printf "%s%s", opened ? "" : ".LP\n", lines
  if (holding) opened = 0
  forget()
}
