"""The web side: webhook, health, JSON API and pages. It remembers deliveries, reads the store and acts on nothing."""
