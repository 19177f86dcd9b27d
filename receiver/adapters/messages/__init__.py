"""The outbox delivered to chats and webhooks, through Apprise."""
