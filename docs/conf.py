"""The site: Sphinx over the Markdown of this folder, the docstrings, and the examples, which it runs.

Nothing is fetched, neither while it is built nor while it is read: formulas become MathML, the font they need is cut
from one that a package brings, and the search is Sphinx's own. `make docs` builds it into output/docs.
"""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

import matplotlib

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
matplotlib.use("Agg")

project = "primalsvm"
author = "The primalsvm developers"
copyright = author
version = release = version_of("primalsvm")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "command_line",
    "plain_docstrings",
    "example_report",
]
exclude_patterns = ["gallery/**/*.py", "gallery/**/*.ipynb", "_templates"]
templates_path = ["_templates"]
smartquotes_action = "D"  # dashes only: a quoted word is an argument as a rule
default_role = "literal"  # `name` in a docstring is a name
suppress_warnings = ["config.cache", "ref.python"]  # a function among the options; words of types that are names too

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_block"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what a parameter is, in words
napoleon_google_docstring = False
napoleon_use_param = False  # `X, y : ...` is one line, not two that say the same
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # several in a line, and their last underscore, stay

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1e6,  # a machine's seconds are no fact about an example
    "remove_config_comments": True,
    "thumbnail_size": (480, 336),
}

html_theme = "furo"
html_title = "primalsvm"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # it would fetch pages, which a browser forbids to files on a disk
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#005a8c",
        "color-brand-content": "#005a8c",
        "color-brand-visited": "#6b3d7d",
        "font-stack--monospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6cb8e6",
        "color-brand-content": "#6cb8e6",
        "color-brand-visited": "#c79bdb",
    },
}
