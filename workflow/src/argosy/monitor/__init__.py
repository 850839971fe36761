"""Shows states, progress and logs of a study's runs, from the files of runs and the queue.

Jobs are still writing these files, so a missing, truncated or old file is not an error here.
"""
