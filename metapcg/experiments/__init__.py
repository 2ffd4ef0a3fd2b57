"""Profiles, runs on disk, notebook execution, figures and reports."""
