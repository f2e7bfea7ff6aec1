"""Measure decisions on labelled cases, fit policies to them, compare runs."""
