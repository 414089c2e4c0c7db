# What a function with CuPy's matrix products has to bring: the files of these packages and of all that they need, as
# paths below this environment's site-packages, a line each.
import re
import sys
from importlib import metadata

wanted, seen = list(sys.argv[1:]), set()
while wanted:
    name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
    if name in seen:
        continue
    seen.add(name)
    found = metadata.distribution(name)
    for need in found.requires or []:
        if ";" not in need or "extra ==" not in need:
            wanted.append(re.match(r"[A-Za-z0-9_.-]+", need).group())
    for file in found.files or []:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            print(file)
