"""Reports: one HTML file that works offline, the verdict first, every figure with its text.

`page` is the page and its parts, `charts` turns tables into plots, `study` makes the page of a study. The scripts
that draw the plots are inlined once; a page opens from a disk, a mail or a web server alike.
"""
