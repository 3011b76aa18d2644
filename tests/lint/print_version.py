"""Prints MAJOR.MINOR.PATCH from include/omnes/version.h, the single source of the version."""
import re
import sys

text = open(sys.argv[1]).read()
print(".".join(re.search(rf"#define OMNES_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")))
