"""Texts that are compared with files of golden/. GOLDEN=write writes them; look at the difference before it is committed."""
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def check(test, name, shown):
    """Compares a text with golden/NAME.txt. The directory of the test is DIR in it."""
    shown = shown.replace(test.path(""), "DIR/").replace(test.path("."), "DIR")
    path = os.path.join(FOLDER, name + ".txt")
    if os.environ.get("GOLDEN") == "write":
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(shown)
    with open(path) as file:
        test.assertEqual(shown, file.read(), name)


def check_widths(test, name, shown_at, widths=(40, 80, 120)):
    """Compares what `shown_at` gives for each number of columns, in one file. A word that is below its row is not broken."""
    parts = []
    for width in widths:
        shown = shown_at(width)
        for line in shown.splitlines():
            test.assertTrue(len(line) <= width or line.startswith(("  name: ", "  used by: ")), line)
        parts.append(f"{width} columns\n{'-' * width}\n{shown}")
    check(test, name, "\n".join(parts))
