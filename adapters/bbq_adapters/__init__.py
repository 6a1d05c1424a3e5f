"""Adapters that turn files of labelling tools into comparisons."""
