"""Metrics: what `/metrics` shows, from the store's own counts and from plain numbers of this process.

catalogue   every series, its labels, and whether it is of the pool or of this process
store_read  what a scrape asks the store, bounded: counts, never a read of every record
reports     provisions of all processes of the pool, counted from their reports
samples     the values of one scrape, checked against the catalogue
of_pool, of_process, of_sets   the values, by where they come from
exposition  the answer: scrapes at the same time share one read
"""
