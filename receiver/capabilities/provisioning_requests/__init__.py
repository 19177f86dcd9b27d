"""ProvisioningRequests: nodes for all pods of a request or for none, booked for ten minutes once they are usable."""
