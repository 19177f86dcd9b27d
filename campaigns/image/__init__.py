"""The image and the installation without one: what their documents claim, proved on this machine."""
