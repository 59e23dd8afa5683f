# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the list of lanes, lab/lanes."""
import os

LIST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lanes")


def read_lanes(path=LIST):
    """Returns {lane: factor of its time limits}; the first lane is the default."""
    with open(path) as f:
        return {
            words[0]: int(words[1]) for words in (line.split("#")[0].split() for line in f) if words
        }
