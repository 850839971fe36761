"""What a study's runs do right now: states, progress, logs, from the files of runs and the queue.

It reads what is still being written, so a file that is missing, cut off or old is no error here.
"""
