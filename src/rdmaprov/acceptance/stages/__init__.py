"""The stages of a gate, one file for each, in the order of the table in stage_report.py."""
