"""Bayesian Bradley-Terry with rater quality: leaderboards and rater reports from pairwise votes."""
