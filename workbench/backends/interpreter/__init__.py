"""The reference interpreter: loops run in plain numpy, slowly and without a choice to get wrong.

Reading order: ``scalar`` (the value of one scalar expression over whole arrays), then what walks
the loops around it.
"""
