"""Collect common English words from the standard library's docstrings and comments into words.txt."""

import collections
import os
import re
import sysconfig
from pathlib import Path

import stage_one

c = collections.Counter()
root = sysconfig.get_paths()["stdlib"]
for d, ds, fs in os.walk(root):
    if "site-packages" in d or "test" in d:
        continue
    for f in fs:
        if f.endswith(".py"):
            t = Path(d, f).read_text(errors="ignore")
            for s in re.findall(r'"""(.*?)"""', t, re.S) + re.findall(r"#(.*)", t):
                c.update(w for w in re.findall(r"(?<![\w.])[A-Za-z]?[a-z]{1,9}(?![\w(])", s))
low = collections.Counter()
for w, n in c.items():
    low[w.lower()] += n
ws = [
    w
    for w, n in low.most_common()
    if n >= 4 and 2 <= len(w) <= 10 and w not in stage_one.HELD_WORDS and (re.search("[aeiouy]", w))
]
Path("words.txt").write_text("\n".join(ws[:5000]))
print(len(ws), ws[:20], ws[3000:3020])
