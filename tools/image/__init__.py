"""Builds the image of the Dockerfile: with an engine of this machine, or with Debian's buildah for the check."""
