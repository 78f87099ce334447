"""How Sphinx makes pages of what site/build.py has gathered, in either language."""

import os
from pathlib import Path

import style

SITE = Path(__file__).parent
EDITION = os.environ["SITE_LANGUAGE"]  # set by site/build.py, as is SITE_URL
language = {"en": "en", "zh": "zh_CN"}[EDITION]

project = "The Annotated Transformer, alive again"
html_title = "The Annotated Transformer"
extensions = ["myst_nb", "sphinx_copybutton", "extension", "formulas", "sections"]
html_math_renderer = "drawn"
root_doc = "index"
# The folder that Sphinx copies as a whole is not a page.
exclude_patterns = ["_static"]
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = {
    "en": ("Show code", "Hide code"),
    "zh": ("展开代码", "收起代码"),
}[EDITION]

# "amsmath" and labels tear formulas apart: `$$(\sin a)$$` is read as one with a label.
myst_enable_extensions = ["dollarmath", "attrs_inline", "html_image"]
myst_dmath_allow_labels = False
myst_heading_anchors = 6
# "en:" leads from a Chinese page to an English one.
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "en": "{{path}}#{{fragment}}",
}
myst_heading_slug_func = "extension.slug"
suppress_warnings = ["myst.header"]  # solutions have the chapters' level 3 alone

html_theme = "furo"
url = os.environ["SITE_URL"]
html_baseurl = url and url + ("zh/" if EDITION == "zh" else "")
templates_path = ["templates"]
gathered = SITE.parent / "build" / "site-source" / EDITION
html_static_path = [str(SITE / "static"), str(gathered / "_static")]
html_favicon = str(SITE / "static" / "favicon.svg")
html_css_files = ["site.css", "figures.css"]
html_js_files = [("glossary.js", {"defer": "defer"}), ("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False
html_search_language = "en"  # of Sphinx's index, which sections.py replaces
html_last_updated_fmt = None
light, dark = style.page(EDITION)
html_theme_options = {
    "top_of_page_buttons": ["view"],  # templates/components makes it the other language
    "light_css_variables": light,
    "dark_css_variables": dark,
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_selector = "div.cell_input pre, div.highlight-console pre"
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
