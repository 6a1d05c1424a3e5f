"""From results to documents: JSON, CSV, tables for the terminal, and pages with charts."""
