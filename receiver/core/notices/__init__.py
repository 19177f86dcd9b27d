"""Every sentence that is sent to people, at the top of the core: one module per kind of news, and their grouping."""
