"""The study of the example: its benchmark has a table of its own."""

from clmembench.studies import Study

STUDY = Study(name="strided", title="Strided reads", package=__package__, tables={"strided_read": "strided_tables:sections"})
