"""HTTP: the index as an API with an OpenAPI description, and as a page."""
