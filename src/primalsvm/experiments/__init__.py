"""The experiments of the five papers, one file each; see `lab` for what one is made of.

A file's name is that of the experiment. Its docstring states the paper, the claim, the data and what is expected; its
`run(lab)` measures and ends with a verdict on each claim.
"""
