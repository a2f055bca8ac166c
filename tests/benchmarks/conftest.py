# A contender needs its library, which the tests do not: collecting doctests must not import it.
collect_ignore_glob = ["contenders/*.py"]
