"""Pages about what weights tell of their layout, made by asking the weights of the trained models.

matrix       how the weights of each model score in each layout, packed in each
matrix_page  these scores as a page of the site, and as pictures
report_plots plots of the linter's HTML report on these models
"""
