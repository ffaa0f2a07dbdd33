"""Reports: one HTML file that works offline, the verdict first, every figure with its text.

`page` is the page and its parts. `run`, `sweep`, `audit` and `study` make the pages of folders (`folders`):
`spacetime` finds a message's causal past, `diagram` draws it, `figures` and `charts`
make plots of tables.
The scripts that draw are inlined once; a page opens from a disk, a mail or a web server alike.
"""
